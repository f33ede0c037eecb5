import { setTimeout as delay } from 'node:timers/promises';
import { expect, onTestFinished } from 'vitest';
import { systemClock } from '../../../src/observe/system-clock.ts';
import type { ReceivedSource } from '../../../src/server/receiver/setup.ts';
import { startReceiver } from '../../../src/server/receiver/start-receiver.ts';
import { startScript } from '../../support/child-script.ts';
import { POSTGRES } from '../../support/databases.ts';
import type { PostgresServer } from '../../support/postgres-server.ts';
import { receivedSource, rowsOf, send, signed } from './receiver-stage.ts';
import { type LoadTally, sendUnderLoad } from './sending-load.ts';

const RECEIVING = new URL('receiving.ts', import.meta.url);

/** The connections of clients to a database, but for the one that asks; the server looks after its tables through others. */
export const CONNECTIONS =
  "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";

export interface Received {
  source: ReceivedSource;
  port: number;
  /** Ends it as an operator does; resolves with how it ended. */
  stop: () => Promise<unknown>;
  /** The events that it has told of. */
  events: () => string[];
}

/** A receiver in a process of its own; for further sources beside the one where they are given. */
export async function receiving(address: string, others: readonly ReceivedSource[] = []): Promise<Received> {
  const source = receivedSource(address);
  const { child, ready, ended } = startScript(RECEIVING, [JSON.stringify([source, ...others])]);
  const lines: string[] = [];
  child.stdout?.on('data', (chunk: Buffer) => lines.push(...chunk.toString().split('\n').filter(Boolean)));
  const port = Number((await Promise.race([ready, ended.then(({ stderr }) => stderr)])).trim());
  const stop = (): Promise<unknown> => {
    child.kill('SIGTERM');
    return ended;
  };
  const events = (): string[] => lines.flatMap((line) => /"event":"((?!delivery_refused)\w+)"/.exec(line)?.[1] ?? []);
  return { source, port, stop, events };
}

/** The same in this process, for tests that are not about the process. */
export async function receivingHere(address: string, others: readonly ReceivedSource[] = []): Promise<Received> {
  const source = receivedSource(address);
  const events: string[] = [];
  const receiver = await startReceiver({
    serve: { host: '127.0.0.1', port: 0 },
    sources: [source, ...others],
    clock: systemClock,
    pages: async () => new Response(null, { status: 404 }),
    onArrival: () => undefined,
    onAnswer: () => undefined,
    onNote: ({ event }) => void (event.startsWith('delivery_refused') || events.push(event)),
  });
  const stop = async (): Promise<unknown> => {
    await receiver.close();
    return { code: 0, stderr: '' };
  };
  onTestFinished(async () => void (await stop()));
  return { source, port: Number(new URL(receiver.url).port), stop, events: () => events };
}

/** Twelve senders; each rests after every delivery that was taken where it is told to. */
function underLoad({ source, port }: Received, name: string, restMs: number | undefined) {
  const delivery = (number: string) => signed(source, { id: `msg_${name}_${number}` });
  const rest = restMs === undefined ? {} : { restMs };
  return sendUnderLoad({ port: () => port, senders: 12, pauseMs: 50, ...rest, delivery });
}

async function expectKept({ source }: Received, { ids, faults, answers }: LoadTally): Promise<void> {
  const stored = (await rowsOf(source, POSTGRES)).map((row) => row.delivery_id);
  const held = new Set(stored);
  expect({ lost: ids.filter((id) => !held.has(id)), doubled: stored.length - held.size, faults }).toEqual({
    lost: [],
    doubled: 0,
    faults: [],
  });
  const refused = answers.filter(({ status }) => status === 503);
  expect(refused.every(({ retryAfter }) => retryAfter === '2')).toBe(true);
}

/** Milliseconds until the first delivery that was taken after a moment. */
function takenAfter(moment: number, { answers }: LoadTally): number {
  return Math.min(...answers.filter(({ status, at }) => status === 202 && at > moment).map(({ at }) => at)) - moment;
}

/** Sends it again and again, as a sender does; the milliseconds until it was taken. */
export async function untilTaken({ source, port }: Received, delivery = signed(source)): Promise<number> {
  const began = performance.now();
  while ((await send(port, delivery)).status !== 202) await delay(50);
  return performance.now() - began;
}

interface Crashes {
  crashes: number;
  restMs?: number;
}

/** Its server crashes every two seconds: it keeps what it acknowledged, says 503 meanwhile, and is back at once. */
export async function crashUnder(receiver: Received, server: PostgresServer, plan: Crashes): Promise<void> {
  const load = underLoad(receiver, 'crash', plan.restMs);
  const backs: number[] = [];
  for (let crash = 0; crash < plan.crashes; crash += 1) {
    await delay(2_000);
    await server.crash();
    // Senders are told, and nobody waits for the server.
    await delay(1_200);
    await server.start();
    backs.push(performance.now());
  }
  await delay(3_000);
  const tally = await load.stop();
  for (const back of backs) expect(takenAfter(back, tally)).toBeLessThan(5_000);
  expect(tally.answers.some(({ status }) => status === 503)).toBe(true);
  expect(tally.ids.length).toBeGreaterThan(100);
  await expectKept(receiver, tally);
  expect(new Set(receiver.events())).toEqual(new Set(['inbox_refuses', 'inbox_recovered']));
}
