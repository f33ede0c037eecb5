import type { Lane } from '../../model/vocabulary.ts';

/** The proof of who is asking, kept fresh. */
export interface Credentials {
  /** Waits until there is something to send; throws `SyncError` (retry or stop) if there is none to be had. */
  ready(lane: Lane, signal: AbortSignal | undefined): Promise<void>;
  /** False once what `header` gives is known to have run out, as may happen in a long wait for a slot. */
  fresh(): boolean;
  /** The value of the Authorization header. */
  header(): string;
  /** Monotonic milliseconds until which that holds, as far as is known; infinite for what never runs out. */
  holdsUntil(): number;
  /** Called when the service refused this header (401); false if no other can be had. */
  renew(refused: string): boolean;
}

/** An API key: always there, never renewed. */
export function apiKeyCredentials(key: string): Credentials {
  return {
    ready: async () => undefined,
    fresh: () => true,
    header: () => `Bearer ${key}`,
    holdsUntil: () => Infinity,
    renew: () => false,
  };
}
