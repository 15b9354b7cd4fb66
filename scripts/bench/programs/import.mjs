// Prints the seconds to import a module: `node import.mjs MODULE`.

const began = performance.now();
await import(process.argv[2]);
console.log((performance.now() - began) / 1e3);
