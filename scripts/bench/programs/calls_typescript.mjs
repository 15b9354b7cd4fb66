// What the clients on the official TypeScript SDK have in common: the client, and the cost of its calls.

import { Client } from '@modelcontextprotocol/client';

const MODERN = '2026-07-28';
/** Calls before the measurement: V8 optimizes functions for some thousand calls. */
const WARM_UP = 10_000;

/** Returns a client of one revision. */
export function makeClient(revision) {
    const mode = revision === MODERN ? { pin: MODERN } : 'legacy';
    return new Client({ name: 'bench', version: '1' }, { versionNegotiation: { mode } });
}

/** Makes the calls with `atOnce` in flight, and prints CPU microseconds and wall microseconds per call. */
export async function measure(client, calls, atOnce) {
    const some = async (number) => {
        for (let done = 0; done < number; done += 1) await client.callTool({ name: 'echo', arguments: { text: 'hello' } });
    };
    const allOf = (number) => Promise.all(Array.from({ length: atOnce }, () => some(Math.floor(number / atOnce))));
    await allOf(WARM_UP);
    const cpu = process.cpuUsage();
    const began = performance.now();
    await allOf(calls);
    const { user, system } = process.cpuUsage(cpu);
    const wall = (performance.now() - began) * 1e3;
    console.log(JSON.stringify({ cpu: (user + system) / calls, wall: wall / calls }));
}
