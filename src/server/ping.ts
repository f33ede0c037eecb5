// Pings monitors (such as healthchecks.io) at the start and the end of each run.
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { Agent, request } from 'undici';
import { SyncError } from '../model/errors.ts';
import type { RunStatus } from '../model/vocabulary.ts';
import type { PingSettings } from '../config/settings.ts';
import { overallStatus, type RunReport } from '../sync/report.ts';

/** Reports runs to monitors that alert when nothing arrives. A monitor that does not respond never fails or delays a run. */
export interface Pings {
  /** Sends pings in parallel to `work`, and returns its result or throws its error at once. */
  around(resources: readonly string[], work: () => Promise<RunReport>): Promise<RunReport>;
  /** Waits a few seconds for pings that are not sent, and drops the rest. */
  close(): Promise<void>;
}

const LIMITS = {
  /** For one ping, with its retries. */
  deadlineMs: 10_000,
  /** Pings that are not sent within this time after the end of the process are dropped. */
  lingerMs: 5_000,
  /** Between two attempts of a ping. */
  betweenMs: 1_000,
};

export type PingLimits = typeof LIMITS;

const MAX_ATTEMPTS = 3;
const PLACEHOLDER = '{resource}';
const HEADERS = { 'user-agent': 'content-sync' };

/** Failed pings are logged without their URLs, which are secrets. */
export function createPings(urls: PingSettings, log: Logger, limits: PingLimits = LIMITS): Pings {
  const { deadlineMs, lingerMs, betweenMs } = limits;
  const agent = new Agent({ connect: { timeout: deadlineMs } });
  const closing = new AbortController();
  const inFlight = new Set<Promise<unknown>>();

  /** Sends one ping for each resource if the URL has a placeholder for its name, else one for all; after `before`. */
  function send(kind: keyof PingSettings, resources: readonly string[], before?: Promise<unknown>): Promise<unknown> {
    const url = urls[kind];
    if (url === undefined) return Promise.resolve();
    const sending = (url.includes(PLACEHOLDER) ? resources : [null]).map(async (resource) => {
      await before;
      const signal = AbortSignal.any([closing.signal, AbortSignal.timeout(deadlineMs)]);
      const address = url.replaceAll(PLACEHOLDER, encodeURIComponent(resource ?? ''));
      const failure = await sendPing(address, agent, betweenMs, signal);
      if (failure !== null) log.warn({ ping: kind, resource, failure }, 'the monitor was not reached');
    });
    const sent = Promise.all(sending).finally(() => inFlight.delete(sent));
    inFlight.add(sent);
    return sent;
  }

  function sendEnds(ends: readonly { resource: string; status: RunStatus }[], started: Promise<unknown>): void {
    const overall = overallStatus(ends.map(({ status }) => status));
    for (const kind of ['success', 'failure'] as const) {
      const resources = ends.filter(({ status }) => endKind(status) === kind).map(({ resource }) => resource);
      const isPerResource = urls[kind]?.includes(PLACEHOLDER) === true;
      if (isPerResource || endKind(overall) === kind) void send(kind, resources, started);
    }
  }

  return {
    around: async (resources, work) => {
      const started = send('start', resources);
      try {
        const report = await work();
        sendEnds(report.resources, started);
        return report;
      } catch (error) {
        const isInterrupted = error instanceof SyncError && error.code === 'interrupted';
        const status = isInterrupted ? 'interrupted' : 'failed';
        const ends = resources.map((resource) => ({ resource, status }) as const);
        sendEnds(ends, started);
        throw error;
      }
    },
    close: async () => {
      const timer = setTimeout(() => closing.abort(), lingerMs);
      await Promise.all(inFlight);
      clearTimeout(timer);
      await agent.destroy();
    },
  };
}

/** An interrupted run pings neither: unless a later one ends, the monitor misses its ping. */
function endKind(status: RunStatus): 'success' | 'failure' | null {
  if (status === 'interrupted') return null;
  return status === 'ok' ? 'success' : 'failure';
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
