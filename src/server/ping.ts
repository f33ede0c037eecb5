import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { Agent, request } from 'undici';
import { SyncError } from '../model/errors.ts';
import type { RunStatus } from '../model/vocabulary.ts';
import type { PingSettings } from '../config/settings.ts';
import { overallStatus, type ResourceReport, type RunReport } from '../sync/report.ts';

/** Reports runs to monitors that alert when nothing arrives. A monitor that does not respond never fails or delays a run. */
export interface Pings {
  /** Sends pings in parallel to `work`, and returns its result or throws its error at once. */
  around(resources: readonly string[], work: () => Promise<RunReport>): Promise<RunReport>;
  /** Waits a few seconds for pings that are not sent, and drops the rest. */
  close(): Promise<void>;
}

type PingKind = keyof PingSettings;

const LIMITS = {
  /** For one ping, with its retries. */
  deadlineMs: 10_000,
  /** Pings that are not sent within this time after the end of the process are dropped. */
  lingerMs: 5_000,
  betweenMs: 1_000,
};

export type PingLimits = typeof LIMITS;

const MAX_ATTEMPTS = 3;
const PLACEHOLDER = '{resource}';
const HEADERS = { 'user-agent': 'content-sync' };

type ResourceEnd = Pick<ResourceReport, 'resource' | 'status'>;

interface Ping {
  kind: PingKind;
  /** Null for a ping about all resources. */
  resource: string | null;
  url: string;
}

/** Failed pings are logged without their URLs, which are secrets. */
export function createPings(urls: PingSettings, log: Logger, limits: PingLimits = LIMITS): Pings {
  const agent = new Agent({ connect: { timeout: limits.deadlineMs } });
  const inFlight = new Map<Promise<void>, AbortController>();

  const send = async ({ kind, url, resource }: Ping, stop: AbortController): Promise<void> => {
    const timer = setTimeout(() => stop.abort(), limits.deadlineMs);
    const failure = await sendPing(url, agent, limits.betweenMs, stop.signal);
    clearTimeout(timer);
    if (failure !== null) log.warn({ ping: kind, resource, failure }, 'the monitor was not reached');
  };
  /** Sends the end of a run after its start: `before`. */
  const sendAll = (pings: readonly Ping[], before: Promise<unknown>): Promise<unknown> =>
    Promise.all(
      pings.map((ping) => {
        const stop = new AbortController();
        const sent = before.then(() => send(ping, stop));
        inFlight.set(sent, stop);
        return sent.finally(() => inFlight.delete(sent));
      }),
    );
  return {
    around: async (resources, work) => {
      const ends = (status: RunStatus): ResourceEnd[] => resources.map((resource) => ({ resource, status }));
      const started = sendAll(
        pingsFor(urls, ends('ok'), () => 'start'),
        Promise.resolve(),
      );
      try {
        const report = await work();
        void sendAll(pingsFor(urls, report.resources, endKind), started);
        return report;
      } catch (error) {
        const isInterrupted = error instanceof SyncError && error.code === 'interrupted';
        void sendAll(pingsFor(urls, ends(isInterrupted ? 'interrupted' : 'failed'), endKind), started);
        throw error;
      }
    },
    close: async () => {
      const timer = setTimeout(() => inFlight.forEach((stop) => stop.abort()), limits.lingerMs);
      await Promise.all(inFlight.keys());
      clearTimeout(timer);
      await agent.destroy();
    },
  };
}

/** An interrupted run pings neither: unless a later one ends, the monitor misses its ping. */
function endKind(status: RunStatus): PingKind | null {
  if (status === 'interrupted') return null;
  return status === 'ok' ? 'success' : 'failure';
}

/** Returns one ping for each resource if the URL has a placeholder for its name, else one for all of them. */
function pingsFor(urls: PingSettings, ends: readonly ResourceEnd[], kindOf: typeof endKind): Ping[] {
  const all = { resource: null, status: overallStatus(ends.map(({ status }) => status)) };
  return [all, ...ends].flatMap(({ resource, status }): Ping[] => {
    const kind = kindOf(status);
    const url = kind === null ? undefined : urls[kind];
    if (kind === null || url === undefined || url.includes(PLACEHOLDER) !== (resource !== null)) return [];
    return [{ kind, resource, url: url.replaceAll(PLACEHOLDER, encodeURIComponent(resource ?? '')) }];
  });
}

/** Returns null if the monitor accepted it, else what went wrong. Never throws. */
async function sendPing(url: string, agent: Agent, betweenMs: number, signal: AbortSignal): Promise<string | null> {
  let failure = 'no answer in time';
  for (let attempt = 1; attempt <= MAX_ATTEMPTS && !signal.aborted; attempt += 1) {
    try {
      if (attempt > 1) await delay(betweenMs, undefined, { signal });
      const { statusCode, headers, body } = await request(url, { dispatcher: agent, signal, headers: HEADERS });
      await body.dump();
      if (statusCode >= 200 && statusCode < 300) return null;
      failure = `answered ${statusCode}`;
      // Another attempt would have the same result, or the monitor asks to wait.
      if ((statusCode < 500 && statusCode !== 429) || headers['retry-after'] !== undefined) return failure;
    } catch (error) {
      // A message may hold the URL.
      const code = error instanceof Error && 'code' in error ? String(error.code) : 'no answer';
      if (!signal.aborted) failure = code;
    }
  }
  return failure;
}
