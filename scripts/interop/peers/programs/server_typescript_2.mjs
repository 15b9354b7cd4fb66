// A server on the TypeScript SDK 2.x: `node server_typescript_2.mjs` over stdio, `node server_typescript_2.mjs PORT` over Streamable HTTP, at
// /mcp: both eras, the legacy one with sessions.

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { NodeStreamableHTTPServerTransport, localhostHostValidation, localhostOriginValidation, toNodeHandler, toWebRequest } from '@modelcontextprotocol/node';
import { McpServer, ResourceTemplate, acceptedContent, completable, createMcpHandler, inputRequired, inputResponse, isLegacyRequest, isSpecType } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { PERSON, addOffers } from './offers.mjs';

/** Notifies the subscribers of the modern era over HTTP, where each request has its own server. */
let notify;

function makeServer({ era }) {
    const server = new McpServer(
        { name: 'peer-typescript-2', version: '1.0.0' },
        { capabilities: { logging: {}, resources: { subscribe: true, listChanged: true } } }
    );
    const watched = new Set();
    const publish = era === 'modern' ? notify : undefined;
    const told = (result) => ({ content: [{ type: 'text', text: JSON.stringify(result) }] });
    addOffers(server, {
        completable,
        ResourceTemplate,
        progress: async (context, progress, total) => {
            const progressToken = context.mcpReq._meta?.progressToken;
            if (progressToken === undefined) return;
            await context.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total } });
        },
        log: (context, level, data, logger) => context.mcpReq.log(level, data, logger),
        signal: (context) => context.mcpReq.signal,
        elicit: async (context, params) => {
            if (era === 'legacy') return told(await context.mcpReq.elicitInput(params));
            const answer = acceptedContent(context.mcpReq.inputResponses, 'person', PERSON);
            if (answer !== undefined) return told(answer);
            const view = inputResponse(context.mcpReq.inputResponses, 'person');
            if (view.kind === 'elicit') return { ...told(view), isError: true };
            return inputRequired({ inputRequests: { person: inputRequired.elicit(params) } });
        },
        sample: async (context, params) => {
            if (era === 'legacy') return told(await context.mcpReq.requestSampling(params));
            const view = inputResponse(context.mcpReq.inputResponses, 'model');
            if (view.kind !== 'missing') return { ...told(view), isError: !isSpecType.CreateMessageResult(view.result) };
            return inputRequired({ inputRequests: { model: inputRequired.createMessage(params) } });
        },
        touched: async (uri) => {
            if (publish !== undefined) publish.resourceUpdated(uri);
            else if (era === 'modern' || watched.has(uri)) await server.server.sendResourceUpdated({ uri });
        },
        changed: (list) => publish?.[`${list}Changed`]()
    });
    if (era === 'legacy') {
        server.server.setRequestHandler('resources/subscribe', ({ params }) => {
            watched.add(params.uri);
            return {};
        });
        server.server.setRequestHandler('resources/unsubscribe', ({ params }) => {
            watched.delete(params.uri);
            return {};
        });
    }
    return server;
}

const sessions = new Map();

/** Returns the transport of a legacy session, or of a new session for a request without a session id. */
async function legacyTransport(id) {
    if (id !== undefined) return sessions.get(id);
    const transport = new NodeStreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (created) => void sessions.set(created, transport),
        onsessionclosed: (closed) => void sessions.delete(closed)
    });
    await makeServer({ era: 'legacy' }).connect(transport);
    return transport;
}

async function readBody(request) {
    const parts = [];
    try {
        for await (const part of request) parts.push(part);
        return JSON.parse(Buffer.concat(parts).toString());
    } catch {
        return undefined;
    }
}

function listen(port) {
    const handler = createMcpHandler(makeServer, { legacy: 'reject' });
    notify = handler.notify;
    const serve = toNodeHandler(handler);
    const validateHost = localhostHostValidation();
    const validateOrigin = localhostOriginValidation();
    createServer(async (request, response) => {
        if (!validateHost(request, response) || !validateOrigin(request, response)) return;
        const body = request.method === 'POST' ? await readBody(request) : undefined;
        const refuse = (status, code, message) => response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ jsonrpc: '2.0', id: null, error: { code, message } }));
        if (new URL(request.url, 'http://localhost').pathname !== '/mcp') response.writeHead(404).end();
        else if (request.method === 'POST' && body === undefined) refuse(400, -32700, 'Parse error');
        else if (!(await isLegacyRequest(await toWebRequest(request, body), body))) await serve(request, response, body);
        else {
            const transport = await legacyTransport(request.headers['mcp-session-id']);
            if (transport === undefined) refuse(404, -32001, 'Session not found');
            else await transport.handleRequest(request, response, body);
        }
    }).listen(port, '127.0.0.1');
}

if (process.argv.length > 2) listen(Number(process.argv[2]));
else serveStdio(makeServer);
