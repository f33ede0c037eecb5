import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Clock } from '../../model/clock.ts';
import { waitAtMost } from '../../model/waiting.ts';
import {
  controlBodySchema,
  controlRequestSchema,
  failed,
  refused,
  type Control,
  type ControlAnswer,
  type ControlRequest,
} from '../controls/control-request.ts';
import type { DoorSettings } from './door.ts';
import { pagePathOf } from '../page/page-frame.ts';
import { jsonResponse, textResponse } from './responses.ts';

/** The path of the page's one form, and of the same for programs, in JSON. */
export const CONTROL_PATH = '/control';

/** Why a request is not obeyed, and what its sender is told. */
const REFUSALS = {
  other_site: 'another site sent this.',
  other_origin: 'this came from a page of another name. Behind a proxy, put the name of the page under serve.hosts.',
  no_form: 'there is no form in this.',
  no_token: 'this is not a form of the page.',
  wrong_token: 'the page is older than the process that runs now. Load it again.',
  wrong_request: 'this is none of the controls.',
} as const;

type Refusal = keyof typeof REFUSALS;

/** A request as it came: a form of the page, or JSON. */
interface Sent {
  headers: Headers;
  body: string;
}

export interface ControlDoorOptions {
  control: Control;
  /** The settings that hold now: who may see the pages, and under which names browsers know them. */
  serve: () => DoorSettings;
  clock: Clock;
  /** Called for each request that is not obeyed. */
  refused: (reason: string) => void;
}

/** Takes what a user asks for who was let in. */
export interface ControlDoor {
  /** For the form of a page; another one each time, so that compressed pages tell nothing about it by their length. */
  token(): string;
  /** Does what is asked for, if it is not forged; resolves within seconds. */
  take(sent: Sent): Promise<Response>;
  /** The result of an earlier form, by the id in the address of the page. */
  told(id: string): ControlAnswer | null;
}

/** Before the receiver gives a page up. */
const PATIENCE_MS = 4_000;

export function createControlDoor(options: ControlDoorOptions): ControlDoor {
  const { serve, clock, control } = options;
  // Lives as long as the process: what it gave out is worth nothing to the next one.
  const key = randomBytes(32);
  const answers = keptAnswers(clock);

  async function carryOut(request: ControlRequest): Promise<ControlAnswer> {
    const asked = control(request, { via: 'page', by: serve().auth?.user ?? null });
    const begun = await waitAtMost(clock, PATIENCE_MS, asked);
    if (begun !== null) return begun.value.answer;
    return { done: true, message: `${request.action}: asked for, and still going on`, hint: null };
  }

  return {
    token: () => {
      const salt = randomBytes(12).toString('base64url');
      return `${salt}.${proofOf(key, salt, serve())}`;
    },
    told: answers.find,
    take: async ({ headers, body }) => {
      const isJson = isJsonType(headers);
      const { hosts, host } = serve();
      const read = forgeryOf(headers, [...hosts, host]) ?? (isJson ? jsonIn(body) : formIn(body, key, serve()));
      if (typeof read === 'string') {
        options.refused(read);
        return textResponse(403, `Nothing was done: ${REFUSALS[read]}`);
      }
      const answer = await carryOut(read.request);
      if (isJson) return answerResponse(answer);
      return textResponse(303, 'Done; the page says what.', { location: `${read.back}?told=${answers.keep(answer)}` });
    },
  };
}

/**
 * Answers a command on the control socket: a line with the answer, and one more when the syncs that it asked for have
 * ended. Whoever can open the socket may do everything.
 */
export async function answerCommand(control: Control, body: string | null): Promise<Response> {
  const { data, error } = controlBodySchema.safeParse(parsed(body ?? ''));
  if (data === undefined) {
    const faults = error.issues.map(({ path, message }) => `${path.join('.') || 'the body'}: ${message}`);
    const hint = 'use the commands of the same version of content-sync as the running serve';
    return answerResponse(refused('serve_version', `not understood: ${faults.join('; ').slice(0, 500)}`, hint));
  }
  const { answer, report } = await control(data.request, { via: 'command', by: data.by });
  if (report === null) return answerResponse(answer);
  const end = report.then(
    (ended) => ({ report: ended }),
    (fault: unknown) => ({ failed: failed(fault) }),
  );
  const lines = [answer, end].values();
  const stream = new ReadableStream<Uint8Array>({
    pull: async (controller) => {
      const { value, done: isOver } = lines.next();
      if (isOver === true) return controller.close();
      controller.enqueue(Buffer.from(`${JSON.stringify(await value)}\n`));
    },
  });
  return new Response(stream, { headers: { 'content-type': 'application/x-ndjson' } });
}

function answerResponse(answer: ControlAnswer): Response {
  return jsonResponse(answer.done ? 200 : answer.code === 'serve_version' ? 400 : 409, answer, 0);
}

function isJsonType(headers: Headers): boolean {
  return /^application\/json\b/i.test(headers.get('content-type') ?? '');
}

interface Read {
  request: ControlRequest;
  /** Address of the page that the form stands on, relative to the form's own. */
  back: string;
}

/** Browsers send JSON to another site's address only if that site allows it, which this one never does. */
function jsonIn(body: string): Read | Refusal {
  const { data } = controlRequestSchema.safeParse(parsed(body));
  return data === undefined ? 'wrong_request' : { request: data, back: '' };
}

/** Reads a form, which holds each of its fields once. */
function formIn(body: string, key: Buffer, serve: DoorSettings): Read | Refusal {
  const fields = new URLSearchParams(body);
  const [token, request, back] = ['token', 'request', 'back'].map((name) => fields.getAll(name));
  if (fields.size === 0) return 'no_form';
  if (token?.length !== 1) return 'no_token';
  if (!isToken(token[0] ?? '', key, serve)) return 'wrong_token';
  const { data } = controlRequestSchema.safeParse(parsed(request?.length === 1 ? (request[0] ?? '') : ''));
  return data === undefined ? 'wrong_request' : { request: data, back: backTo(back?.[0] ?? '') };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Relative, because a proxy may show the page below a path of its own. */
function backTo(path: string): string {
  const page = pagePathOf(`/${path}`);
  return page === null || page.page === 'overview' ? './' : path;
}

const TOKEN = /^(?<salt>[A-Za-z0-9_-]{16})\.(?<proof>[A-Za-z0-9_-]{43})$/;

/** Proves that a form was given out by this process, under the user and password that hold now. */
function proofOf(key: Buffer, salt: string, { auth }: DoorSettings): string {
  return createHmac('sha256', key)
    .update(JSON.stringify([salt, auth?.user, auth?.password]))
    .digest('base64url');
}

function isToken(token: string, key: Buffer, serve: DoorSettings): boolean {
  const { salt = '', proof = '' } = TOKEN.exec(token)?.groups ?? {};
  const [given, right] = [Buffer.from(proof), Buffer.from(proofOf(key, salt, serve))];
  return given.length === right.length && timingSafeEqual(given, right);
}

const KEPT_MS = 10 * 60_000;
const MOST_KEPT = 200;

/** Answers for the page to which their reader is sent; texts in an address would show whatever the maker of a link wants. */
function keptAnswers(clock: Clock) {
  const answers = new Map<string, { told: ControlAnswer; at: number }>();
  return {
    keep: (told: ControlAnswer): string => {
      const id = randomBytes(9).toString('base64url');
      answers.set(id, { told, at: clock.monotonic() });
      const [oldest] = answers.keys();
      if (answers.size > MOST_KEPT && oldest !== undefined) answers.delete(oldest);
      return id;
    },
    find: (id: string): ControlAnswer | null => {
      const kept = answers.get(id);
      return kept !== undefined && clock.monotonic() - kept.at < KEPT_MS ? kept.told : null;
    },
  };
}

/**
 * Tells whether a browser sent this from another site's page, by what scripts and forms cannot set: `Sec-Fetch-Site`,
 * and `Origin` against the name that the browser asked for, or one of `hosts`. A program that sends neither is no
 * browser: nobody else's name and password are sent with its requests.
 */
function forgeryOf(headers: Headers, hosts: readonly string[]): Refusal | null {
  const site = headers.get('sec-fetch-site');
  if (site !== null && site !== 'same-origin') return 'other_site';
  const origin = headers.get('origin');
  if (origin === null) return null;
  const from = hostOf(origin);
  if (from === null) return 'other_origin';
  // A proxy may ask under another name than its browser did; no form or script of another site can set that header.
  const names = [headers.get('host'), headers.get('x-forwarded-host')].filter((name) => name !== null);
  const isOurs = names.some((name) => name.toLowerCase() === from);
  const isNamed = hosts.some((name) => name.toLowerCase() === from.replace(/:\d+$/, ''));
  return isOurs || isNamed ? null : 'other_origin';
}

/** Host and port, without the port that is usual; null for `null` and what is no origin. */
function hostOf(origin: string): string | null {
  return /^https?:\/\/[^/]+$/.test(origin) && URL.canParse(origin) ? new URL(origin).host.toLowerCase() : null;
}
