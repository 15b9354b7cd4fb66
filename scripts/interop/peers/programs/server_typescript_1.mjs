// A server on the TypeScript SDK 1.x: `node server_typescript_1.mjs` over stdio, `node server_typescript_1.mjs PORT` over Streamable HTTP
// (at /mcp, with sessions) and HTTP+SSE (at /sse).

import { randomUUID } from 'node:crypto';
import { createMcpExpressApp } from '@modelcontextprotocol/sdk/server/express.js';
import { completable } from '@modelcontextprotocol/sdk/server/completable.js';
import { McpServer, ResourceTemplate } from '@modelcontextprotocol/sdk/server/mcp.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { SubscribeRequestSchema, UnsubscribeRequestSchema, isInitializeRequest } from '@modelcontextprotocol/sdk/types.js';
import { addOffers } from './offers.mjs';

function makeServer() {
    const server = new McpServer(
        { name: 'peer-typescript-1', version: '1.0.0' },
        { capabilities: { logging: {}, resources: { subscribe: true, listChanged: true } } }
    );
    const watched = new Set();
    const progress = async (extra, done, total) => {
        const progressToken = extra._meta?.progressToken;
        if (progressToken === undefined) return;
        await extra.sendNotification({ method: 'notifications/progress', params: { progressToken, progress: done, total } });
    };
    const told = (result) => ({ content: [{ type: 'text', text: JSON.stringify(result) }] });
    addOffers(server, {
        completable,
        ResourceTemplate,
        progress,
        log: (extra, level, data, logger) => server.sendLoggingMessage({ level, data, logger }, extra.sessionId),
        signal: (extra) => extra.signal,
        elicit: async (extra, params) => told(await server.server.elicitInput(params, { relatedRequestId: extra.requestId })),
        sample: async (extra, params) => told(await server.server.createMessage(params, { relatedRequestId: extra.requestId })),
        changed: () => {},
        touched: async (uri) => {
            if (watched.has(uri)) await server.server.sendResourceUpdated({ uri });
        }
    });
    server.server.setRequestHandler(SubscribeRequestSchema, ({ params }) => {
        watched.add(params.uri);
        return {};
    });
    server.server.setRequestHandler(UnsubscribeRequestSchema, ({ params }) => {
        watched.delete(params.uri);
        return {};
    });
    return server;
}

function listen(port) {
    const app = createMcpExpressApp();
    const sessions = new Map();
    app.all('/mcp', async (request, response) => {
        const id = request.headers['mcp-session-id'];
        let transport = sessions.get(id);
        if (transport === undefined && id === undefined && isInitializeRequest(request.body)) {
            transport = new StreamableHTTPServerTransport({
                sessionIdGenerator: randomUUID,
                onsessioninitialized: (created) => void sessions.set(created, transport),
                onsessionclosed: (closed) => void sessions.delete(closed)
            });
            await makeServer().connect(transport);
        }
        if (transport === undefined) {
            const error = id === undefined ? { code: -32000, message: 'No session' } : { code: -32001, message: 'Session not found' };
            response.status(id === undefined ? 400 : 404).json({ jsonrpc: '2.0', error, id: null });
            return;
        }
        await transport.handleRequest(request, response, request.body);
    });
    const streams = new Map();
    app.get('/sse', async (_, response) => {
        const transport = new SSEServerTransport('/messages', response);
        streams.set(transport.sessionId, transport);
        response.on('close', () => streams.delete(transport.sessionId));
        await makeServer().connect(transport);
    });
    app.post('/messages', async (request, response) => {
        const transport = streams.get(request.query.sessionId);
        if (transport === undefined) response.status(404).send('Session not found');
        else await transport.handlePostMessage(request, response, request.body);
    });
    app.listen(port, '127.0.0.1');
}

if (process.argv.length > 2) listen(Number(process.argv[2]));
else await makeServer().connect(new StdioServerTransport());
