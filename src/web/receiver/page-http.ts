import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import type { ReceiverLimits } from './setup.ts';

/** The request for a page without its body. Its path is one of those that URLs leave as they are. */
export function toRequest({ url = '/', method = 'GET', headers }: IncomingMessage): Request {
  const sent = Object.entries(headers).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, String(value)]],
  );
  return new Request(`http://localhost${url}`, { method, headers: sent });
}

/**
 * Sends texts at once, and bodies of a stated length no faster than their clients read, only some at the same time. A
 * body that fails ends its connection, so that no client mistakes a part for the whole. Never rejects.
 */
export function responseSender({ longBodies, longIdleMs }: ReceiverLimits) {
  let inProgress = 0;
  return async (made: Response, response: ServerResponse): Promise<void> => {
    const headers = Object.fromEntries(made.headers);
    const { body } = made;
    if (body === null || !made.headers.has('content-length')) {
      const bytes = new Uint8Array(await made.arrayBuffer());
      return void response.writeHead(made.status, { 'content-length': String(bytes.length), ...headers }).end(bytes);
    }
    if (inProgress >= longBodies) {
      await body.cancel();
      const headers = { 'retry-after': '2', 'content-type': 'text/plain; charset=utf-8' };
      return void response.writeHead(503, headers).end('Too many files are being sent.\n');
    }
    inProgress += 1;
    response.setTimeout(longIdleMs, () => response.destroy());
    response.writeHead(made.status, headers);
    // If it rejects, the body has failed or the client has gone, and the response is destroyed.
    await pipeline(body, response).catch(() => undefined);
    inProgress -= 1;
  };
}
