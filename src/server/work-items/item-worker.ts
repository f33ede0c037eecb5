import type { Db, Job, PgBoss } from 'pg-boss';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import type { JsonValue } from '../../model/json.ts';
import { WakeableSleep } from '../../model/waiting.ts';
import { WORK_KINDS, type ItemOf, type WorkKind, type WorkEnd, type WorkHandler } from './work-items.ts';

export interface ItemWorkerOptions<Kind extends WorkKind> {
  kind: Kind;
  /** Items under way at once. */
  atOnce: number;
  boss: PgBoss;
  /** For taking items: a statement that ran twice would take an item that nobody works on. */
  single: Db;
  handler: WorkHandler<Kind, unknown>;
  clock: Clock;
  /** Aborted with the reason for which items are given back. */
  closing: AbortSignal;
  /** Called for every item that this process has done. */
  done: (id: string, result: unknown) => void;
  /** Called with errors of handlers and of the queue; no item is lost by them. */
  failed: (error: unknown) => void;
}

/** An attempt at an item; the retry count tells it from attempts of other processes. */
interface Held extends Pick<Job, 'id' | 'retryCount'> {
  claim: AbortController;
}

/** An item whose handler threw is taken again after so long. */
const AFTER_BUG_MS = 15_000;
const BEATS = 3;

/** Takes items of one kind out of the queue and does them, at most `atOnce` at a time. */
export class ItemWorker<Kind extends WorkKind> {
  readonly #options: ItemWorkerOptions<Kind>;
  readonly #held = new Map<string, Held>();
  readonly #underWay = new Set<Promise<void>>();
  /** Sources that are not in this process's settings. */
  readonly #foreign = new Set<string>();
  readonly #heart: NodeJS.Timeout;
  readonly #loop: Promise<void>;
  readonly #pause: WakeableSleep;

  constructor(options: ItemWorkerOptions<Kind>) {
    this.#options = options;
    this.#pause = new WakeableSleep(options.clock);
    const { heartbeatSeconds } = WORK_KINDS[options.kind];
    this.#heart = setInterval(() => void this.#beat(), (heartbeatSeconds * 1_000) / BEATS);
    this.#loop = this.#takeOn();
  }

  /** Looks for items now. */
  wake(): void {
    this.#pause.wake();
  }

  /** Takes items of this source again. */
  welcome(source: string): void {
    if (this.#foreign.delete(source)) this.wake();
  }

  /** Resolves once every item under way is done or given back, which `closing` must ask for. */
  async idle(): Promise<void> {
    this.wake();
    await this.#loop;
    await Promise.all(this.#underWay);
    clearInterval(this.#heart);
  }

  async #takeOn(): Promise<void> {
    const { closing, failed, kind, atOnce } = this.#options;
    const { pollMs, spreadMs } = WORK_KINDS[kind];
    while (!closing.aborted) {
      let pauseMs = pollMs;
      try {
        const hasTaken = this.#held.size < atOnce && (await this.#take());
        if (hasTaken) pauseMs = Math.min(pollMs, spreadMs * this.#held.size);
      } catch (error) {
        failed(error);
      }
      await this.#pause.sleep(pauseMs, closing);
    }
  }

  async #take(): Promise<boolean> {
    const { kind, boss, single } = this.#options;
    const [job] = await boss.fetch<ItemOf<Kind>>(kind, { db: single, ignoreGroups: [...this.#foreign] });
    if (job === undefined) return false;
    const { id, retryCount, data } = job;
    const held = { id, retryCount, claim: new AbortController() };
    this.#held.set(id, held);
    const work = this.#doOne(held, { ...data, kind }).finally(() => this.#underWay.delete(work));
    this.#underWay.add(work);
    return true;
  }

  async #doOne(held: Held, item: ItemOf<Kind>): Promise<void> {
    const { closing, failed } = this.#options;
    const signal = AbortSignal.any([held.claim.signal, closing]);
    const end = await this.#attempt(item, signal);
    if (end.is === 'foreign') this.#foreign.add(item.source);
    try {
      await this.#store(held, end);
    } catch (error) {
      // Without a heartbeat the item goes to another process.
      failed(error);
    }
    const wasFull = this.#held.size >= this.#options.atOnce;
    this.#held.delete(held.id);
    if (wasFull) this.wake();
  }

  async #attempt(item: ItemOf<Kind>, signal: AbortSignal): Promise<WorkEnd<unknown>> {
    const { handler, failed } = this.#options;
    try {
      signal.throwIfAborted();
      return await handler(item, signal);
    } catch (error) {
      if (signal.aborted) return { is: 'back', afterMs: 0 };
      failed(error);
      return { is: 'back', afterMs: AFTER_BUG_MS };
    }
  }

  /** By id and retry count, so that nothing is changed if another process has taken the item meanwhile. */
  async #store({ id, retryCount }: Held, end: WorkEnd<unknown>): Promise<void> {
    const { kind, boss, done } = this.#options;
    if (end.is === 'done') {
      const result = storable(end.result);
      const completed = idsIn(await boss.complete(kind, [{ id, retryCount }], { result }));
      if (completed.has(id)) done(id, result);
      return;
    }
    const back = idsIn(await boss.fail(kind, [{ id, retryCount }]));
    const startAfter = end.is === 'back' ? Math.round(end.afterMs / 1_000) : 0;
    if (back.has(id) && startAfter > 0) await boss.update(kind, undefined, { id, startAfter });
  }

  /** One statement for all items under way. */
  async #beat(): Promise<void> {
    const { kind, boss } = this.#options;
    const held = [...this.#held.values()];
    if (held.length === 0) return;
    try {
      const attempts = held.map(({ id, retryCount }) => ({ id, retryCount }));
      const ours = idsIn(await boss.touch(kind, attempts));
      for (const { id, claim } of held) {
        if (!ours.has(id) && this.#held.has(id)) claim.abort(takenOver());
      }
    } catch {
      // While the server is away no item changes hands; a lost one shows at the next beat.
    }
  }
}

/** A result as jsonb can store it: without NUL and lone surrogates. */
function storable(value: unknown): JsonValue {
  const text = JSON.stringify(value ?? null, (_, part: unknown) =>
    typeof part === 'string' ? part.toWellFormed().replaceAll('\0', '\u{FFFD}') : part,
  );
  const read: JsonValue = JSON.parse(text);
  return read;
}

/** The ids of the items that were still this process's; pg-boss returns them without declaring it in its types. */
function idsIn(response: object): Set<unknown> {
  if ('settled' in response && Array.isArray(response.settled)) return new Set<unknown>(response.settled);
  throw new Error('the queue does not say what it has changed');
}

function takenOver(): SyncError {
  return new SyncError('interrupted', 'another process has taken this work over', { recovery: 'stop' });
}
