import type { Clock } from '../../model/clock.ts';
import { sleepOrAbort, WakeableSleep } from '../../model/waiting.ts';
import type { Drain } from '../../trigger/drain/options.ts';
import type { ReceivedInbox } from '../received-inbox.ts';

interface RestingDrainOptions {
  clock: Clock;
  inbox: Pick<ReceivedInbox, 'figures'>;
  /** Opens the source, and gives a drain that has been started to `work`. */
  open: (work: (drain: Drain) => Promise<void>) => Promise<void>;
  /** Called with what keeps deliveries from being worked on; they are tried again. */
  failed: (error: unknown) => void;
}

/** Whether deliveries wait is looked at without being told, too: somebody may replay some by hand. */
const LOOK_MS = 2_000;
const FAILED_MS = 15_000;
/** A drain that has nothing to do stays for the next deliveries. */
const QUIET_MS = 2_000;
const QUIET_LOOK_MS = 250;

/** Works on the deliveries of a source, which is open only while there are any. */
export class RestingDrain {
  readonly #options: RestingDrainOptions;
  readonly #stopping = new AbortController();
  readonly #pause: WakeableSleep;
  readonly #ended: Promise<void>;
  #drain: Drain | null = null;

  constructor(options: RestingDrainOptions) {
    this.#options = options;
    this.#pause = new WakeableSleep(options.clock);
    this.#ended = this.#work();
  }

  /** Called when deliveries have been stored. */
  wake(): void {
    if (this.#drain === null) this.#pause.wake();
    else this.#drain.wake();
  }

  /** As `Drain.retry`. */
  retry(): void {
    if (this.#drain === null) this.#pause.wake();
    else this.#drain.retry();
  }

  /** Waits, for a bounded time, for what is under way; what is left waits in the inbox. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#ended;
  }

  async #work(): Promise<void> {
    const { clock, inbox, open, failed } = this.#options;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        if ((await inbox.figures()).waiting > 0) await open((drain) => this.#untilQuiet(drain));
      } catch (error) {
        if (signal.aborted) return;
        failed(error);
        await sleepOrAbort(clock, FAILED_MS, signal);
      }
      await this.#pause.sleep(LOOK_MS, signal);
    }
  }

  async #untilQuiet(drain: Drain): Promise<void> {
    const { clock, inbox } = this.#options;
    const { signal } = this.#stopping;
    this.#drain = drain;
    try {
      for (let since = clock.monotonic(); !signal.aborted;) {
        await sleepOrAbort(clock, QUIET_LOOK_MS, signal);
        const now = clock.monotonic();
        if (drain.figures().inProgress > 0) since = now;
        // What was put off waits in the inbox.
        if (now - since >= QUIET_MS && (await inbox.figures()).waiting === 0) return;
      }
    } finally {
      this.#drain = null;
      await drain.stop();
    }
  }
}
