import type { Answer } from '../answer.ts';
import type { PageParts, PageQuery } from '../pages/page-parts.ts';

/** A parameter of a fault; on the command line only text and numbers. */
export type FaultValue = string | number | Uint8Array | Readonly<Record<string, string>>;

/** The context that a fault gets besides the answer that it changes. */
export interface FaultContext {
  url: URL;
  /** Lists another page of the same resource. */
  list: (query: PageQuery) => PageParts;
  /** Turns parts into an answer in the sandbox's pagination style. */
  render(parts: PageParts): Answer;
  /** Kept from one firing to the next. */
  memory: Map<string, string>;
}

/** One kind of fault: what it does to an answer. Its parameters are those that have a default here. */
export interface Fault {
  about: string;
  defaults: Readonly<Record<string, FaultValue>>;
  apply(answer: Answer, parameters: Readonly<Record<string, FaultValue>>, context: FaultContext): Answer;
}

/** The default of a parameter that takes text or bytes. */
export const TEXT_OR_BYTES: string | Uint8Array = '';

/** Declares a fault; the function sees its parameters with the types of their defaults. */
export function fault<P extends Record<string, FaultValue>>(
  about: string,
  defaults: P,
  apply: (answer: Answer, parameters: Widened<P>, context: FaultContext) => Answer,
): Fault {
  return {
    about,
    defaults,
    apply: (answer, parameters, context) => apply(answer, merged(defaults, parameters), context),
  };
}

function merged<P>(defaults: P, parameters: object): Widened<P> {
  return Object.assign(Object.create(null), defaults, parameters);
}

type Widened<P> = { [K in keyof P]: P[K] extends number ? number : P[K] extends string ? string : P[K] };
