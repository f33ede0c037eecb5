import type { Lane } from '../../model/vocabulary.ts';
import type { Carrier } from '../../source/auth.ts';
import { carried, queryNamesOf } from './carried.ts';
import type { Proof } from './proof.ts';

/**
 * The meaning of a refusal: no other proof can be had; another one can, and if that is refused too, something else is
 * wrong; or the proof has ended, as those of this service do.
 */
export type Renewal = 'none' | 'doubted' | 'ended';

/** The proof of who is asking, kept fresh. */
export interface Credentials {
  /** Waits until there is something to send; throws `SyncError` (retry or stop) if there is none to be had. */
  ready(lane: Lane, signal: AbortSignal | undefined): Promise<void>;
  /** False once what `proof` gives is known to have run out, as may happen in a long wait for a slot. */
  fresh(): boolean;
  /** The same object until it is renewed. */
  proof(): Proof;
  /** A proof of the same form with nothing of the own one's text, so that it can stand in any message. */
  falseProof(): Proof;
  /** Query parameters that `proof` may have: in no other way do they stand in a request, a position or a message. */
  readonly queryNames: readonly string[];
  /** Monotonic milliseconds until which the proof holds, as far as is known; infinite for what never runs out. */
  holdsUntil(): number;
  /** Called when the service took this proof. */
  accepted(proof: Proof): void;
  /** Called when the service refused this proof (401); `wasRenewed`: the same request was refused before. */
  renew(refused: Proof, wasRenewed: boolean): Renewal;
  /** Called when a person has mended what was refused: the service is asked again. */
  retry(): void;
}

/** A proof that is always there and never renewed. */
export function fixedCredentials(proof: Proof, falseProof: Proof): Credentials {
  return {
    ready: async () => undefined,
    fresh: () => true,
    proof: () => proof,
    falseProof: () => falseProof,
    queryNames: Object.keys(proof.query),
    holdsUntil: () => Infinity,
    accepted: () => undefined,
    renew: () => 'none',
    retry: () => undefined,
  };
}

/** One secret text. */
export function keyCredentials(carrier: Carrier, key: string): Credentials {
  return {
    ...fixedCredentials(carried(carrier, key), carried(carrier, falsified(key))),
    queryNames: queryNamesOf(carrier),
  };
}

/** Several secret headers. */
export function headerCredentials(headers: Readonly<Record<string, string>>): Credentials {
  const over = (change: (value: string) => string): Proof => ({
    headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), change(value)])),
    query: {},
  });
  return fixedCredentials(
    over((value) => value),
    over(falsified),
  );
}

/** RFC 7617, in UTF-8. */
export function basicCredentials(
  { username, password }: { username: string; password: string },
  keepSecret: (secret: string) => void,
): Credentials {
  const own = basicProof(username, password);
  for (const sent of Object.values(own.headers)) keepSecret(sent.replace('Basic ', ''));
  return fixedCredentials(own, basicProof(falsified(username), falsified(password)));
}

function basicProof(user: string, password: string): Proof {
  return carried({ in: 'header', prefix: 'Basic' }, Buffer.from(`${user}:${password}`).toString('base64'));
}

/** A text of the same form. */
export function falsified(text: string): string {
  return text.replaceAll(/\p{L}/gu, 'x').replaceAll(/\p{N}/gu, '0');
}
