import { once } from 'node:events';
import type { Server } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import type { Clock } from '../model/clock.ts';
import { ConfigError } from '../model/errors.ts';

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is in use',
  EACCES: 'the port needs more rights',
  EADDRNOTAVAIL: 'this machine does not have the address',
};

/** Starts listening and returns the URL. Throws ConfigError if the port cannot be used. */
export async function listen(server: Server, { port, host }: { port: number; host: string }): Promise<string> {
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    throw new ConfigError('sandbox_listen', `Cannot listen on ${host}:${port}: ${REASONS[code] ?? String(error)}.`, {
      hint: 'Choose another --port, or 0 to have a free one picked.',
      cause: error,
    });
  }
  const address = server.address();
  const actual = typeof address === 'object' && address !== null ? address.port : port;
  return `http://${host.includes(':') ? `[${host}]` : host}:${actual}`;
}

/** Ends every connection. */
export async function stopListening(server: Server): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  server.close(() => resolve(undefined));
  server.closeAllConnections();
  await promise;
}

/** The machine's clock. `monotonic` counts from the epoch, so that it can be compared with `now`. */
export const machineClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.timeOrigin + performance.now(),
  sleep: async (ms, signal) => {
    await wait(ms, undefined, signal === undefined ? {} : { signal });
  },
};
