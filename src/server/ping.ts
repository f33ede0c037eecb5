import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { Agent, request } from 'undici';
import { DeferredError, SyncError } from '../model/errors.ts';
import type { RunStatus } from '../model/vocabulary.ts';
import type { PingSettings } from '../config/settings.ts';
import { overallStatus, type ResourceReport, type RunReport } from '../sync/report.ts';

/** Reports runs to a dead-man monitor. A monitor that does not answer never fails or delays a run. */
export interface Pings {
  /** Pings around `work`, whose result or error is passed on at once; the pings go on beside it. */
  around(resources: readonly string[], work: () => Promise<RunReport>): Promise<RunReport>;
  /** Waits a few seconds for pings that are still to be sent, and drops the rest. */
  close(): Promise<void>;
}

type PingKind = keyof PingSettings;

const LIMITS = {
  /** For one ping, repetitions included. */
  deadlineMs: 10_000,
  /** When the process ends, pings that are not sent by then are dropped. */
  lingerMs: 5_000,
  betweenMs: 1_000,
};

export type PingLimits = typeof LIMITS;

const ATTEMPTS = 3;

const PLACEHOLDER = '{resource}';

/**
 * The ping for the end of a run. A run that was interrupted is neither a success nor a failure: unless a later one makes
 * up for it, the monitor misses its ping.
 */
function kindOfEnd(status: RunStatus): PingKind | null {
  if (status === 'interrupted') return null;
  return status === 'ok' ? 'success' : 'failure';
}

type End = Pick<ResourceReport, 'resource' | 'status'>;

interface Wanted {
  kind: PingKind;
  /** Null for a ping about all resources. */
  resource: string | null;
  url: string;
}

/** Failed pings are logged without their URLs, which are secrets. */
export function createPings(urls: PingSettings, log: Logger, limits: PingLimits = LIMITS): Pings {
  const agent = new Agent({ connect: { timeout: limits.deadlineMs } });
  const underWay = new Map<Promise<void>, AbortController>();

  const send = async ({ kind, url, resource }: Wanted, stop: AbortController): Promise<void> => {
    const timer = setTimeout(() => stop.abort(), limits.deadlineMs);
    const failure = await ping({ agent, limits, signal: stop.signal }, url);
    clearTimeout(timer);
    if (failure !== null) log.warn({ ping: kind, resource, failure }, 'the monitor was not reached');
  };
  /** Sends them in parallel, after those `before`, so that no monitor gets an end before its beginning. */
  const tell = (wanted: readonly Wanted[], before: Promise<unknown>): Promise<unknown> =>
    Promise.all(
      wanted.map((each) => {
        const stop = new AbortController();
        const sent = before.then(() => send(each, stop));
        underWay.set(sent, stop);
        return sent.finally(() => underWay.delete(sent));
      }),
    );
  return {
    around: async (resources, work) => {
      const begun = tell(
        pingsFor(urls, endsOf(resources, 'ok'), () => 'start'),
        Promise.resolve(),
      );
      try {
        const report = await work();
        void tell(pingsFor(urls, report.resources, kindOfEnd), begun);
        return report;
      } catch (error) {
        void tell(pingsFor(urls, endsOf(resources, statusOfError(error)), kindOfEnd), begun);
        throw error;
      }
    },
    close: async () => {
      const timer = setTimeout(() => underWay.forEach((stop) => stop.abort()), limits.lingerMs);
      await Promise.all(underWay.keys());
      clearTimeout(timer);
      await agent.destroy();
    },
  };
}

function endsOf(resources: readonly string[], status: RunStatus): End[] {
  return resources.map((resource) => ({ resource, status }));
}

function statusOfError(error: unknown): RunStatus {
  if (error instanceof DeferredError) return 'deferred';
  return error instanceof SyncError && error.code === 'interrupted' ? 'interrupted' : 'failed';
}

/** One ping for each resource if the URL has a placeholder for its name, else one for all of them. */
function pingsFor(urls: PingSettings, ends: readonly End[], kindOf: typeof kindOfEnd): Wanted[] {
  const wanted = (resource: string | null, status: RunStatus): Wanted[] => {
    const kind = kindOf(status);
    const url = kind === null ? undefined : urls[kind];
    if (kind === null || url === undefined || url.includes(PLACEHOLDER) !== (resource !== null)) return [];
    return [{ kind, resource, url: url.replaceAll(PLACEHOLDER, encodeURIComponent(resource ?? '')) }];
  };
  const overall = overallStatus(ends.map(({ status }) => status));
  return [...wanted(null, overall), ...ends.flatMap(({ resource, status }) => wanted(resource, status))];
}

interface Sender {
  agent: Agent;
  limits: PingLimits;
  signal: AbortSignal;
}

/** Returns null if the monitor accepted it, else what went wrong. Never throws. */
async function ping({ agent, limits, signal }: Sender, url: string): Promise<string | null> {
  let failure = 'no answer in time';
  for (let attempt = 1; attempt <= ATTEMPTS && !signal.aborted; attempt += 1) {
    try {
      if (attempt > 1) await delay(limits.betweenMs, undefined, { signal });
      const { statusCode, headers, body } = await request(url, { dispatcher: agent, signal, headers: HEADERS });
      // Only its status counts; a long answer is cut off.
      await body.dump();
      if (statusCode >= 200 && statusCode < 300) return null;
      failure = `answered ${statusCode}`;
      // Asked again, it would say the same, or it asks to be left alone.
      if ((statusCode < 500 && statusCode !== 429) || headers['retry-after'] !== undefined) return failure;
    } catch (error) {
      if (!signal.aborted) failure = codeOf(error);
    }
  }
  return failure;
}

const HEADERS = { 'user-agent': 'content-sync' };

/** The code alone: a message may hold the URL. */
function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'no answer';
}
