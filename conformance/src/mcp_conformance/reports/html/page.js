"use strict";
// Shows what matches the filters. Without this script, everything is shown and the filters are hidden.
const form = document.getElementById("filters");
const shown = document.getElementById("shown");
const entries = [...document.querySelectorAll("[data-status]")];
const texts = new Map(entries.map((entry) => [entry, entry.textContent.toLowerCase()]));
const words = (entry, name) => (entry.dataset[name] || "").split(" ");

function matches(entry, wanted, text) {
  const fits = (name) => !wanted[name] || words(entry, name).includes(wanted[name]);
  return fits("status") && fits("level") && fits("area") && text.every((word) => texts.get(entry).includes(word));
}

function apply() {
  const wanted = Object.fromEntries(["status", "level", "area"].map((name) => [name, form.elements[name].value]));
  const text = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
  let rows = 0;
  for (const entry of entries) {
    entry.hidden = !matches(entry, wanted, text);
    rows += entry.matches("tr") && !entry.hidden ? 1 : 0;
  }
  for (const body of document.querySelectorAll("#checks tbody")) {
    body.hidden = !body.querySelector("tr.check:not([hidden])");
  }
  const articles = document.querySelectorAll("#failures article");
  const none = document.getElementById("no-failures");
  if (none) none.hidden = [...articles].some((article) => !article.hidden);
  shown.textContent = `${rows} of ${document.querySelectorAll("tr.check").length} checks`;
}

if (form) {
  form.hidden = false;
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(apply));
  apply();
}

// A link to a hidden entry shows it, and unfolds what it is in.
function reveal() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (!target) return;
  if (form && target.closest("[hidden]")) {
    form.reset();
    apply();
  }
  for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  target.scrollIntoView();
}
window.addEventListener("hashchange", reveal);
reveal();
