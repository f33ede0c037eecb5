import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { Agent, request } from 'undici';
import type { PingSettings } from '../config/settings.ts';
import { SyncError } from '../model/errors.ts';
import type { RunStatus } from '../model/vocabulary.ts';
import { overallStatus, type RunReport } from '../sync/report.ts';
import { errorCode } from './alerts/message.ts';

/** Reports runs to monitors that alert when nothing arrives. A monitor that does not respond never fails or delays a run. */
export interface Pings {
  /** Pings before and after `work`, and returns or throws what it does without waiting for the pings. */
  around(resources: readonly string[], work: () => Promise<RunReport>): Promise<RunReport>;
  /** Waits a few seconds for pings that are not sent, and drops the rest. */
  close(): Promise<void>;
}

const LIMITS = {
  /** For one ping, retries included. */
  deadlineMs: 10_000,
  /** Pings that are not sent so long after the end of the process are dropped. */
  lingerMs: 5_000,
  betweenMs: 1_000,
};
export type PingLimits = typeof LIMITS;

const MAX_ATTEMPTS = 3;
const PLACEHOLDER = '{resource}';
const HEADERS = { 'user-agent': 'content-sync' };

type PingKind = keyof PingSettings;

/** A resource with its status. */
interface PingedResource {
  resource: string;
  status: RunStatus;
}

interface PlannedPing {
  kind: PingKind;
  /** Null for a ping about all resources. */
  resource: string | null;
  url: string;
}

/** Failed pings are logged without their URLs, which are secrets. */
export function createPings(urls: PingSettings, log: Logger, limits: PingLimits = LIMITS): Pings {
  const agent = new Agent({ connect: { timeout: limits.deadlineMs } });
  const closing = new AbortController();
  const inFlight = new Set<Promise<void>>();

  const send = async ({ kind, url, resource }: PlannedPing): Promise<void> => {
    const signal = AbortSignal.any([AbortSignal.timeout(limits.deadlineMs), closing.signal]);
    const failure = await ping(url, agent, limits, signal);
    if (failure !== null) log.warn({ ping: kind, resource, failure }, 'the monitor was not reached');
  };
  /** Sends them in parallel, after those `before`, so that a monitor never gets an end before its start. */
  const sendAll = (pings: readonly PlannedPing[], before: Promise<unknown>): Promise<unknown> =>
    Promise.all(
      pings.map((each) => {
        const sent = before.then(() => send(each));
        inFlight.add(sent);
        return sent.finally(() => inFlight.delete(sent));
      }),
    );
  return {
    around: async (resources, work) => {
      const all = (status: RunStatus): PingedResource[] => resources.map((resource) => ({ resource, status }));
      const begun = sendAll(
        planPings(urls, all('ok'), () => 'start'),
        Promise.resolve(),
      );
      try {
        const report = await work();
        void sendAll(planPings(urls, report.resources, kindOfEnd), begun);
        return report;
      } catch (error) {
        void sendAll(planPings(urls, all(statusOfError(error)), kindOfEnd), begun);
        throw error;
      }
    },
    close: async () => {
      const timer = setTimeout(() => closing.abort(), limits.lingerMs);
      await Promise.all(inFlight);
      clearTimeout(timer);
      await agent.destroy();
    },
  };
}

/** An interrupted run pings nothing: unless a later run succeeds in time, the monitor misses its ping. */
function kindOfEnd(status: RunStatus): PingKind | null {
  if (status === 'interrupted') return null;
  return status === 'ok' ? 'success' : 'failure';
}

function statusOfError(error: unknown): RunStatus {
  if (error instanceof DeferredError) return 'deferred';
  return error instanceof SyncError && error.code === 'interrupted' ? 'interrupted' : 'failed';
}

/** One ping for each resource if the URL has a placeholder for its name, else one for all of them. */
function planPings(
  urls: PingSettings,
  resources: readonly PingedResource[],
  kindOf: (status: RunStatus) => PingKind | null,
): PlannedPing[] {
  const overall = { resource: null, status: overallStatus(resources.map(({ status }) => status)) };
  return [overall, ...resources].flatMap(({ resource, status }) => {
    const kind = kindOf(status);
    const url = kind === null ? undefined : urls[kind];
    if (kind === null || url === undefined || url.includes(PLACEHOLDER) !== (resource !== null)) return [];
    return [{ kind, resource, url: url.replaceAll(PLACEHOLDER, encodeURIComponent(resource ?? '')) }];
  });
}

/** Returns null if the monitor accepted it, else what went wrong. Never throws. */
async function ping(url: string, agent: Agent, limits: PingLimits, signal: AbortSignal): Promise<string | null> {
  let failure = 'no answer in time';
  for (let attempt = 1; attempt <= MAX_ATTEMPTS && !signal.aborted; attempt += 1) {
    try {
      if (attempt > 1) await delay(limits.betweenMs, undefined, { signal });
      const headers = { 'user-agent': 'content-sync' };
      const answer = await request(url, { dispatcher: agent, signal, headers });
      // Only the status counts; a long body is cut off.
      await answer.body.dump();
      if (answer.statusCode >= 200 && answer.statusCode < 300) return null;
      failure = `answered ${answer.statusCode}`;
      const mayRetry = answer.statusCode >= 500 || answer.statusCode === 429;
      if (!mayRetry || answer.headers['retry-after'] !== undefined) return failure;
    } catch (error) {
      if (!signal.aborted) failure = errorCode(error);
    }
  }
  return failure;
}
