import { setImmediate as immediate } from 'node:timers/promises';
import { randomFrom } from '../../../support/random.ts';
import { type Answer, type Delivery, sendPlain, type Wire, writeHead } from '../answer.ts';
import type { RequestEntry } from '../request-log.ts';
import {
  ANSWER_FAULTS,
  type Fault,
  fault,
  type FaultContext,
  type FaultValue,
  PAGE_FAULTS,
  TEXT_OR_BYTES,
} from './answer-faults.ts';

/** Faults of the connection: the right answer, delivered badly or not at all. Negative `after` counts from the end. */
const WIRE_FAULTS = {
  reset: onWire(
    'RST after `after` bytes of the body (half of it when 0; -1 before the headers)',
    { after: 0 },
    ({ after }) =>
      (wire, answer) => {
        const socket = wire.response.socket;
        if (after === -1) socket?.resetAndDestroy();
        else writePart(wire, answer, after, () => socket?.resetAndDestroy());
      },
  ),
  fin: onWire(
    'FIN after `after` bytes of the body (half of it when 0), `chunked` without the last chunk',
    { after: 0, chunked: 0 },
    ({ after, chunked }) =>
      (wire, answer) => {
        if (chunked === 0) writePart(wire, answer, after, () => wire.response.socket?.end());
        else writeChunk(wire, answer, after);
      },
  ),
  silence: unanswered('no answer; closed after `ms` unless that is 0', { ms: 0 }, ({ ms }) => async (wire) => {
    if (ms === 0) return;
    await wire.clock.sleep(ms, wire.gone);
    wire.response.socket?.destroy();
  }),
  drip: onWire('`bytes` of the body every `ms`', { bytes: 1, ms: 1_000 }, ({ bytes, ms }) => async (wire, answer) => {
    await inPieces(wire, answer, bytes, () => wire.clock.sleep(ms, wire.gone));
  }),
  slice: onWire('the body in TCP segments of `bytes`', { bytes: 1 }, ({ bytes }) => async (wire, answer) => {
    wire.response.socket?.setNoDelay(true);
    await inPieces(wire, answer, bytes, () => immediate());
  }),
  'close-after': onWire(
    'closes the kept-alive connection `ms` after the answer, without having said so',
    { ms: 0 },
    ({ ms }) =>
      (wire, answer) => {
        const socket = wire.response.socket;
        wire.response.once('finish', () => setTimeout(() => socket?.destroySoon(), ms));
        sendPlain(wire, answer);
      },
  ),
  raw: unanswered(
    'these bytes instead of an HTTP answer, then FIN unless `keep` is 1',
    { text: TEXT_OR_BYTES, keep: 0 },
    ({ text, keep }) =>
      (wire) => {
        const socket = wire.response.socket;
        socket?.write(text);
        if (keep === 0) socket?.end();
      },
  ),
} satisfies Record<string, Fault>;

function onWire<P extends Record<string, string | number | Uint8Array>>(
  about: string,
  defaults: P,
  delivery: (parameters: Parameters<Parameters<typeof fault<P>>[2]>[1]) => Delivery,
): Fault {
  return fault(about, defaults, (answer, parameters) => ({ ...answer, deliver: delivery(parameters) }));
}

/** Logged with status 0: the client never sees one. */
function unanswered<P extends Record<string, string | number | Uint8Array>>(
  about: string,
  defaults: P,
  delivery: Parameters<typeof onWire<P>>[2],
): Fault {
  return fault(about, defaults, (answer, parameters) => ({ ...answer, status: 0, deliver: delivery(parameters) }));
}

/** The first part of a body: so many bytes, half of it by default, never more than all. */
function part(body: Uint8Array, after: number): Uint8Array {
  return body.subarray(0, after === 0 ? Math.floor(body.length / 2) : after);
}

function writePart(wire: Wire, answer: Answer, after: number, then: () => void): void {
  writeHead(wire, answer);
  const bytes = part(answer.body, after);
  if (bytes.length > 0) {
    wire.response.write(bytes, then);
    return;
  }
  wire.response.flushHeaders();
  setImmediate(then);
}

function writeChunk(wire: Wire, answer: Answer, after: number): void {
  wire.response.writeHead(answer.status, { ...answer.headers, 'transfer-encoding': 'chunked' });
  wire.response.write(part(answer.body, after), () => wire.response.socket?.end());
}

async function inPieces(wire: Wire, answer: Answer, size: number, pause: () => Promise<unknown>): Promise<void> {
  writeHead(wire, answer);
  wire.response.flushHeaders();
  for (let start = 0; start < answer.body.length && !wire.gone.aborted; start += size) {
    await pause();
    wire.response.write(answer.body.subarray(start, start + size));
  }
  wire.response.end();
}

/** The requests that a fault applies to: all given conditions must hold. Refused ones (401, 403, 429) do not count. */
interface FaultWhen {
  /** `content`, `images`, ..., `webhooks`, `oauth`. */
  resource?: string;
  method?: string;
  /** A part of path and query. */
  path?: string;
  /** The number of the page in its walk, even if it is requested again. */
  page?: number;
  /** From the n-th matching request on; only that one unless `times` is given. */
  nth?: number;
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
      const memory = new Map<string, string>();
      const random = randomFrom(script.seed ?? 1);
      const one = { script, memory, matched: 0, fired: 0, random: () => random.next() };
      added.push(one);
      return {
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
  const { nth, probability } = script;
  const times = script.times ?? (nth === undefined ? Number.POSITIVE_INFINITY : 1);
  if (fired >= times || matched < (nth ?? 1)) return false;
  return probability === undefined || random() < probability;
}

function parametersOf(script: FaultScript): Record<string, FaultValue> {
  const names = Object.keys(FAULTS[script.fault].defaults);
  const given = names.map((name) => [name, script[name]] as const);
  return Object.fromEntries(given.filter((pair): pair is [string, FaultValue] => pair[1] !== undefined));
}

/** Every fault by its name: what the connection, the answer or the listing does wrong. */
export const FAULTS = { ...WIRE_FAULTS, ...ANSWER_FAULTS, ...PAGE_FAULTS } as const;

type FaultName = keyof typeof FAULTS;
