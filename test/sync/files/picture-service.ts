import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

/** A record as the service lists it. */
export type PictureRecord = { id: string; updated_at: string } & Record<string, unknown>;

/** A service of records, and a second origin beside it from which files come too. */
export interface PictureService {
  url: string;
  records: Map<string, PictureRecord>;
  /** Bytes by the path on which they are served, without the query; null for 404. */
  files: Map<string, Uint8Array | null>;
  /** Answers a request for a file in another way, if it returns true. */
  instead: (request: IncomingMessage, response: ServerResponse, url: URL) => boolean;
  /** Requests for files so far: `200 /cdn/a.png`. */
  asked: string[];
  cdn: { url: string };
  /** A record as it is answered, in a listing or alone. */
  answered: (record: PictureRecord, isListed: boolean) => PictureRecord;
  put(record: Omit<PictureRecord, 'updated_at'>): void;
}

const PIXEL = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==',
  'base64',
);

/** A picture of one pixel that holds a text, behind its end. */
export function picture(text: string): Buffer {
  return Buffer.concat([PIXEL, Buffer.from(text)]);
}

export function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

let clock = Date.parse('2026-01-01T00:00:00Z');

/** Both listen on ports of their own until the test is over. */
export async function pictureService(): Promise<PictureService> {
  const service: PictureService = {
    url: '',
    records: new Map(),
    files: new Map(),
    instead: () => false,
    asked: [],
    cdn: { url: '' },
    answered: (record) => record,
    put: (record) => {
      clock += 60_000;
      service.records.set(String(record['id']), {
        ...record,
        id: String(record['id']),
        updated_at: new Date(clock).toISOString(),
      });
    },
  };
  const sendFile = (request: IncomingMessage, response: ServerResponse, url: URL): void => {
    response.on('finish', () => service.asked.push(`${response.statusCode} ${url.pathname}`));
    if (service.instead(request, response, url)) return;
    const bytes = service.files.get(url.pathname) ?? null;
    if (bytes === null) return void response.writeHead(404).end();
    const etag = `"${sha256(bytes).slice(0, 16)}"`;
    if (request.headers['if-none-match'] === etag) return void response.writeHead(304, { etag }).end();
    response.writeHead(200, { etag, 'content-type': 'image/png', 'content-length': bytes.length }).end(bytes);
  };
  service.url = await listening((request, response) => {
    const url = new URL(request.url ?? '/', 'http://service');
    const [, id] = /^\/v1\/images\/([^/]+)$/.exec(url.pathname) ?? [];
    if (id !== undefined) {
      const record = service.records.get(decodeURIComponent(id));
      return sendJson(response, record && service.answered(record, false));
    }
    if (url.pathname !== '/v1/images') return sendFile(request, response, url);
    const since = url.searchParams.get('updated_since');
    const data = [...service.records.values()]
      .filter(({ updated_at }) => since === null || updated_at >= since)
      .map((record) => service.answered(record, true));
    sendJson(response, { data, next_cursor: null, total: data.length });
  });
  service.cdn.url = await listening((request, response) =>
    sendFile(request, response, new URL(request.url ?? '/', 'http://cdn')),
  );
  return service;
}

function sendJson(response: ServerResponse, value: unknown): void {
  const body = JSON.stringify(value ?? { error: 'not found' });
  response.writeHead(value === undefined ? 404 : 200, { 'content-type': 'application/json' }).end(body);
}

async function listening(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> {
  const server: Server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const address: AddressInfo | string | null = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server has no port');
  return `http://127.0.0.1:${address.port}`;
}
