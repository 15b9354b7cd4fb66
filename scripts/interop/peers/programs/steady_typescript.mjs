// A client on the TypeScript SDK 2.x that calls tools until its standard input ends: `node steady_typescript.mjs URL MODE`.
// MODE is `legacy` or a modern revision. Each call is a line of JSON on standard output: the tool, the id of the payment, and
// `failure`, which is null for success.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const TIMEOUT = 20_000;
const [url, mode] = process.argv.slice(2);
process.stdin.on('end', () => process.exit(0)).resume();
process.on('uncaughtException', (error) => report('open', null, String(error)));
process.on('unhandledRejection', (error) => report('open', null, String(error)));

function report(tool, id, failure) {
    console.log(JSON.stringify({ tool, id, failure }));
}

async function attempt(client, tool, args) {
    let failure = null;
    try {
        const result = await client.callTool({ name: tool, arguments: args }, { timeout: TIMEOUT });
        if (result.isError) failure = `error of the tool: ${JSON.stringify(result.content)}`;
    } catch (error) {
        failure = String(error);
    }
    report(tool, args.id ?? null, failure);
}

for (let number = 1; ; ) {
    const client = new Client(
        { name: 'steady', version: '1.0.0' },
        { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: mode === 'legacy' ? mode : { pin: mode } } },
    );
    client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: { value: true } }));
    try {
        await client.connect(new StreamableHTTPClientTransport(new URL(url)));
        for (; ; number += 1) {
            await attempt(client, 'echo', { text: 'x' });
            await attempt(client, 'pay', { id: `payment-typescript-${mode}-${number}` });
            await new Promise((done) => setTimeout(done, 20));
        }
    } catch (error) {
        report('open', null, String(error));
        await new Promise((done) => setTimeout(done, 200));
    }
}
