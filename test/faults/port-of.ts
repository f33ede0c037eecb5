import type { Server } from 'node:net';

/** Lets a server listen on this machine only, and tells the port that it was given. */
export async function portOf(server: Server): Promise<number> {
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('the server has no port');
  return address.port;
}
