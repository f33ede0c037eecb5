import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { serveUntilEnd } from '../faults/port-of.ts';

/** Part of every address of the receiver. */
export const SECRET_PATH = 'T0FFEE/B1234/x9876543210';

/** A POST that came in. */
export interface Posted {
  headers: IncomingHttpHeaders;
  body: string;
}

/** Takes posts as Slack, a pager or a chat does, and answers as `answer` says. */
export async function alertReceiver(answer: (response: ServerResponse, n: number) => void = ok) {
  const posted: Posted[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8');
    request.on('data', (chunk: string) => (body += chunk));
    request.on('end', () => {
      posted.push({ headers: request.headers, body });
      answer(response, posted.length);
    });
  });
  return { posted, url: `${await serveUntilEnd(server)}/${SECRET_PATH}` };
}

function ok(response: ServerResponse): void {
  response.end('ok');
}
