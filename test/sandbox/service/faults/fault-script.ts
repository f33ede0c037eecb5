import { readFileSync } from 'node:fs';
import { ConfigError } from '../../../../src/model/errors.ts';
import type { Answer } from '../answer.ts';
import type { RequestEntry } from '../request-log.ts';
import { ANSWER_FAULTS, PAGE_FAULTS } from './answer-faults.ts';
import { WIRE_FAULTS } from './connection-faults.ts';
import type { FaultContext, FaultValue } from './fault.ts';

/** The requests that a fault applies to: all given conditions must hold. Refused ones (401, 403, 429) do not count. */
interface FaultWhen {
  /** `content`, `images`, ..., `webhooks`, `oauth`. */
  resource?: string;
  method?: string;
  /** A part of path and query. */
  path?: string;
  /** The number of the page in its walk, even if it is requested again. */
  page?: number;
  /** From the n-th matching request on; only that one unless `times` or `every` is given. */
  nth?: number;
  /** Every so many matching requests. */
  every?: number;
  /** How often it fires at most. */
  times?: number;
  /** 0..1, drawn from a generator that starts with `seed`. */
  probability?: number;
  seed?: number;
}

/** One fault on cue: `{ fault: 'status', status: 503, resource: 'content', nth: 3, times: 2 }`. */
export type FaultScript = FaultWhen & { fault: FaultName } & Readonly<Record<string, FaultValue | undefined>>;

/** A fault that was added. */
interface FaultHandle {
  /** How often it has fired. */
  readonly fired: number;
  remove(): void;
}

/** The script: faults apply in the order in which they were added, and several may apply to one answer. */
export interface Faults {
  add(script: FaultScript): FaultHandle;
  clear(): void;
}

/** One request for the script. */
type FaultOccasion = Pick<RequestEntry, 'method' | 'resource' | 'path'> & { page: number | null };

export interface AppliedFaults extends Faults {
  apply(answer: Answer, occasion: FaultOccasion, context: Omit<FaultContext, 'memory'>): Answer;
}

const WHEN = ['resource', 'method', 'path', 'page', 'nth', 'every', 'times', 'probability', 'seed'] as const;

interface Added {
  script: FaultScript;
  memory: Map<string, string>;
  matched: number;
  fired: number;
  random: () => number;
}

export function faultScript(): AppliedFaults {
  let added: Added[] = [];
  return {
    add: (script) => {
      checkScript(script);
      const memory = new Map<string, string>();
      const one = { script, memory, matched: 0, fired: 0, random: randomFrom(script.seed ?? 1) };
      added.push(one);
      return {
        get fired() {
          return one.fired;
        },
        remove: () => {
          added = added.filter((other) => other !== one);
        },
      };
    },
    clear: () => {
      added = [];
    },
    apply: (answer, occasion, context) => {
      let spoiled = answer;
      for (const one of added) {
        if (!fires(one, occasion)) continue;
        const { memory, script } = one;
        spoiled = FAULTS[script.fault].apply(spoiled, parametersOf(script), { ...context, memory });
      }
      return spoiled;
    },
  };
}

/** Throws ConfigError if the fault, or one of its parameters, does not exist. */
function checkScript(script: FaultScript): void {
  const name = knownFault(script.fault);
  const known = [...WHEN, ...Object.keys(FAULTS[name].defaults)];
  const unknown = Object.keys(script).find((key) => key !== 'fault' && !known.includes(key));
  if (unknown === undefined) return;
  throw new ConfigError('usage', `The fault "${name}" has no parameter "${unknown}".`, {
    hint: `It knows: ${known.join(', ')}.`,
  });
}

/** Throws ConfigError with the list of names if there is no such fault. */
function knownFault(name: string): FaultName {
  if (isFaultName(name)) return name;
  throw new ConfigError('usage', `There is no fault "${name}".`, {
    hint: `Choose one of: ${Object.keys(FAULTS).join(', ')}.`,
  });
}

function fires(one: Added, occasion: FaultOccasion): boolean {
  if (!matches(one.script, occasion)) return false;
  one.matched += 1;
  if (!isTurn(one)) return false;
  one.fired += 1;
  return true;
}

function matches(when: FaultWhen, occasion: FaultOccasion): boolean {
  return (
    (when.resource === undefined || when.resource === occasion.resource) &&
    (when.method === undefined || when.method.toUpperCase() === occasion.method) &&
    (when.path === undefined || occasion.path.includes(when.path)) &&
    (when.page === undefined || when.page === occasion.page)
  );
}

function isTurn({ script, matched, fired, random }: Added): boolean {
  const { nth, every, probability } = script;
  const times = script.times ?? (nth !== undefined && every === undefined ? 1 : Number.POSITIVE_INFINITY);
  if (fired >= times || matched < (nth ?? 1)) return false;
  if (every !== undefined && (matched - (nth ?? every)) % every !== 0) return false;
  return probability === undefined || random() < probability;
}

function parametersOf(script: FaultScript): Record<string, FaultValue> {
  const names = Object.keys(FAULTS[script.fault].defaults);
  const given = names.map((name) => [name, script[name]] as const);
  return Object.fromEntries(given.filter((pair): pair is [string, FaultValue] => pair[1] !== undefined));
}

/** mulberry32: small, seeded, the same everywhere. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** Every fault by its name: what the connection, the answer or the listing does wrong. */
export const FAULTS = { ...WIRE_FAULTS, ...ANSWER_FAULTS, ...PAGE_FAULTS } as const;

type FaultName = keyof typeof FAULTS;

function isFaultName(name: string): name is FaultName {
  return Object.hasOwn(FAULTS, name);
}

const NUMBERS_OF_WHEN = new Set(['page', 'nth', 'every', 'times', 'probability', 'seed']);
const ESCAPES: Readonly<Record<string, string>> = { r: '\r', n: '\n', t: '\t' };

/**
 * Reads a fault from the command line: `status:503,resource=content,nth=3`. The text after the colon is the
 * fault's first parameter, `header.NAME=value` adds a header, `file=PATH` reads `text` from a file; `\,` is a comma,
 * `\r \n \t` have their usual meaning. Throws ConfigError.
 */
export function parseFault(text: string): FaultScript {
  const [, name = '', rest = ''] = /^([^:,]*)[:,]?([^]*)$/.exec(text) ?? [];
  const fault = knownFault(name);
  const parameters: Record<string, FaultValue> = {};
  const [first] = Object.keys(FAULTS[fault].defaults);
  for (const piece of pieces(rest)) read(parameters, fault, piece, first);
  const script: FaultScript = { ...parameters, fault };
  checkScript(script);
  return script;
}

function read(script: Record<string, FaultValue>, name: FaultName, piece: string, first: string | undefined): void {
  const [, key, value = ''] = /^([a-z][\w.-]*)=([^]*)$/i.exec(piece) ?? [null, first ?? piece, piece];
  if (key === undefined || key === null) return;
  if (key === 'file') script['text'] = readFileSync(value);
  else if (key.startsWith('header.')) script['headers'] = { ...headersOf(script), [key.slice(7)]: unescaped(value) };
  else script[key] = isNumber(name, key) ? numberIn(key, value) : unescaped(value);
}

function isNumber(name: FaultName, key: string): boolean {
  const defaults: Readonly<Record<string, FaultValue>> = FAULTS[name].defaults;
  return NUMBERS_OF_WHEN.has(key) || typeof defaults[key] === 'number';
}

function numberIn(key: string, text: string): number {
  const value = text.trim() === '' ? Number.NaN : Number(text);
  if (Number.isFinite(value)) return value;
  throw new ConfigError('usage', `A fault's "${key}" must be a number, not "${text}".`);
}

function headersOf(script: Record<string, FaultValue>): Record<string, string> {
  const headers = script['headers'];
  return typeof headers === 'object' && !(headers instanceof Uint8Array) ? headers : {};
}

/** Splits at commas that are not escaped by a backslash. */
function pieces(text: string): string[] {
  return text.split(/(?<!\\),/).filter((piece) => piece !== '');
}

function unescaped(text: string): string {
  return text.replaceAll(/\\(.)/g, (_whole, letter: string) => ESCAPES[letter] ?? letter);
}
