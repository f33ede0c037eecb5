import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { sleepOrAbort } from '../../model/waiting.ts';
import type { RunReport } from '../../sync/report.ts';
import { failed, refused } from './answers.ts';
import { askWalks } from './ask-walks.ts';
import type { ControlledSource, WalkNews } from './controlled-source.ts';
import type { Control, ControlAnswer, ControlOrigin, ControlRequest } from './control-request.ts';
import { carryOut, chosen } from './source-controls.ts';

export interface ControlsOptions {
  /** The source of that name; undefined if this process does not keep it. */
  source: (name: string) => ControlledSource | undefined;
  /** Reads the config anew; absent where that cannot be done. */
  reload?: ((origin: ControlOrigin) => Promise<ControlAnswer>) | undefined;
  clock: Clock;
  log: Logger;
}

/** Called as walks go on that somebody has asked for. Must not throw. */
export interface WalkFollower {
  /** At first, before anything else. */
  answered(answer: ControlAnswer): void;
  news(news: WalkNews): void;
  /** Aborted when nobody follows any more; the walks go on. */
  signal: AbortSignal;
}

export interface Controls {
  control: Control;
  /** As `control`; and tells of walks that were asked for until they end, with their report. Never rejects. */
  follow(
    request: ControlRequest,
    origin: ControlOrigin,
    follower: WalkFollower,
  ): Promise<{ answer: ControlAnswer; report: RunReport | null }>;
}

interface Begun {
  answer: ControlAnswer;
  report: Promise<RunReport> | null;
}

/** How often those who follow a walk are told of it. */
const NEWS_MS = 200;

/** What a running process can be told to do; each request is one line of the log. */
export function createControls(options: ControlsOptions): Controls {
  const begin = async (request: ControlRequest, origin: ControlOrigin): Promise<Begun> => {
    const begun = await beginning(options, request, origin).catch((error: unknown): Begun => {
      return { answer: failed(error), report: null };
    });
    // A report that nobody waits for.
    begun.report?.catch(() => undefined);
    const { done, message, code } = begun.answer;
    options.log[done ? 'info' : 'warn']({ control: request, ...origin, done, code, answer: message }, 'control');
    return begun;
  };
  return {
    control: async (request, origin) => (await begin(request, origin)).answer,
    follow: async (request, origin, follower) => {
      const { answer, report } = await begin(request, origin);
      follower.answered(answer);
      const on = 'source' in request ? options.source(request.source) : undefined;
      if (report === null || on === undefined) return { answer, report: null };
      const ended = new AbortController();
      const news = tellNews(on, request, follower, AbortSignal.any([ended.signal, follower.signal]));
      try {
        return { answer, report: await report };
      } catch (error) {
        return { answer: failed(error), report: null };
      } finally {
        ended.abort();
        await news;
      }
    },
  };
}

async function beginning(options: ControlsOptions, request: ControlRequest, origin: ControlOrigin): Promise<Begun> {
  if (request.action === 'reload') return { answer: await reload(options, origin), report: null };
  const on = options.source(request.source);
  if (on === undefined) return { answer: unknownSource(request.source), report: null };
  // Another process leads the source; what came from the database was meant for the one that does.
  const elsewhere = origin.via === 'database' ? null : on.elsewhere();
  if (elsewhere !== null && LEADERS.has(request.action)) return elsewhere(request, origin);
  if (request.action === 'sync') return askWalks(on, request);
  return { answer: await carryOut(on, request, origin), report: null };
}

/** What only the process that leads the source can do. */
const LEADERS: ReadonlySet<ControlRequest['action']> = new Set(['sync', 'retry']);

async function reload({ reload: read }: ControlsOptions, origin: ControlOrigin): Promise<ControlAnswer> {
  if (read !== undefined) return read(origin);
  return refused('not_supported', 'the config cannot be read anew', 'restart the process');
}

function unknownSource(name: string): ControlAnswer {
  const hint = 'see the names in the config; after a change of it, content-sync reload';
  return refused('unknown_source', `the running process keeps no source "${name}"`, hint);
}

async function tellNews(
  on: ControlledSource,
  request: ControlRequest,
  follower: WalkFollower,
  signal: AbortSignal,
): Promise<void> {
  const resources = request.action === 'sync' ? chosen(on, request) : [];
  const told = new Map<string, string>();
  while (!signal.aborted) {
    for (const resource of resources) {
      const now = await on.walk(resource).catch(() => null);
      const text = JSON.stringify(now);
      if (now !== null && told.get(resource) !== text) follower.news(now);
      told.set(resource, text);
    }
    await sleepOrAbort(on.clock, NEWS_MS, signal);
  }
}
