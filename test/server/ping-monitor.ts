import { createServer, type ServerResponse } from 'node:http';
import { onTestFinished } from 'vitest';

/** Part of every address of the monitor. */
export const SECRET = 'c0ffee-1234-5678';

type Answer = (response: ServerResponse, path: string) => void;

const ok: Answer = (response) => response.end('OK');

/** A dead-man monitor that writes down what it was asked, and answers so. */
export async function monitor(answer: Answer = ok): Promise<{ asked: string[]; url: string }> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    const path = (request.url ?? '').replace(`/${SECRET}`, '');
    asked.push(`${request.method} ${path}`);
    answer(response, path);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the monitor has no port');
  return { asked, url: `http://127.0.0.1:${address.port}/${SECRET}` };
}
