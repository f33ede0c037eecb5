import type { Server as HttpServer } from 'node:http';
import type { Server } from 'node:net';
import { onTestFinished } from 'vitest';

/** Lets a server listen on this machine only, and tells the port that it was given. */
export async function portOf(server: Server): Promise<number> {
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('the server has no port');
  return address.port;
}

/** Lets an HTTP server listen until the test is over, or until `ending` calls what closes it; returns its origin. */
export async function serveUntilEnd(
  server: HttpServer,
  ending: (end: () => Promise<void>) => void = onTestFinished,
): Promise<string> {
  const port = await portOf(server);
  ending(async () => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${port}`;
}
