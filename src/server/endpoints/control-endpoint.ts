import { randomBytes } from 'node:crypto';
import type { ServeSettings } from '../../config/settings.ts';
import type { Clock } from '../../model/clock.ts';
import { waitAtMost } from '../../model/waiting.ts';
import {
  type Control,
  type ControlAnswer,
  controlBodySchema,
  type ControlRequest,
  controlRequestSchema,
  failed,
  refused,
} from '../controls/control-request.ts';
import { pagePathOf } from '../page/page-frame.ts';
import { jsonResponse, textResponse } from './responses.ts';

/** The path of the page's one form, and of the same for programs, in JSON. */
export const CONTROL_PATH = '/control';

/** Why a request is refused, and what its sender reads. */
const REFUSALS = {
  other_site: 'another site sent this.',
  other_origin: 'this came from a page of another name. Behind a proxy, put the name of the page under serve.hosts.',
  no_origin: 'a form must come from a browser that names the page. Programs send JSON.',
  wrong_request: 'this is none of the controls.',
} as const;

type ControlRefusal = keyof typeof REFUSALS;

export interface ControlEndpointOptions {
  control: Control;
  /** Returns the current settings. */
  serve: () => ServeSettings;
  clock: Clock;
  /** Called for each request that is refused. */
  refused: (reason: string) => void;
}

/** Executes controls that an authenticated user sends over the port: a form of the page, or JSON. */
export interface ControlEndpoint {
  /** Executes the request unless it is forged; resolves within seconds. */
  execute(sent: { headers: Headers; body: string }): Promise<Response>;
  /** Returns the result of an earlier form, by the id in the address of the page. */
  findResult(id: string): ControlAnswer | null;
}

/** Shorter than the time in which a page must be ready. */
const CONTROL_TIMEOUT_MS = 4_000;

export function createControlEndpoint(options: ControlEndpointOptions): ControlEndpoint {
  const { serve, clock, control } = options;
  const results = storedResults(clock);

  async function carryOut(request: ControlRequest): Promise<ControlAnswer> {
    const begun = control(request, { via: 'page', by: serve().auth?.user ?? null });
    const answered = await waitAtMost(clock, CONTROL_TIMEOUT_MS, begun);
    if (answered !== null) return answered.value.answer;
    return { done: true, message: `${request.action}: requested, and still in progress`, hint: null };
  }

  return {
    findResult: results.find,
    execute: async ({ headers, body }) => {
      const { hosts, host } = serve();
      const read = forgeryOf(headers, [...hosts, host]) ?? (isJson(headers) ? jsonIn(body) : formIn(body));
      if (typeof read === 'string') {
        options.refused(read);
        return textResponse(403, `Nothing was done: ${REFUSALS[read]}`);
      }
      const answer = await carryOut(read.request);
      if (isJson(headers)) return answerResponse(answer);
      return textResponse(303, 'Done; the page says what.', { location: `${read.back}?told=${results.add(answer)}` });
    },
  };
}

/**
 * Answers a command on the control socket: a line with the answer, and one more when the syncs that it started have
 * ended.
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
  async function* lines(): AsyncGenerator<Uint8Array> {
    yield Buffer.from(`${JSON.stringify(answer)}\n`);
    const end = await report?.then(
      (ended) => ({ report: ended }),
      (error: unknown) => ({ failed: failed(error) }),
    );
    yield Buffer.from(`${JSON.stringify(end)}\n`);
  }
  return new Response(lines(), { headers: { 'content-type': 'application/x-ndjson' } });
}

function answerResponse(answer: ControlAnswer): Response {
  return jsonResponse(answer.done ? 200 : answer.code === 'serve_version' ? 400 : 409, answer, 0);
}

function isJson(headers: Headers): boolean {
  return /^application\/json\b/i.test(headers.get('content-type') ?? '');
}

interface Read {
  request: ControlRequest;
  /** Path of the page with the form, relative because a proxy may show the pages below a path of its own. */
  back: string;
}

function jsonIn(body: string): Read | ControlRefusal {
  const { data } = controlRequestSchema.safeParse(parsed(body));
  return data === undefined ? 'wrong_request' : { request: data, back: '' };
}

function formIn(body: string): Read | ControlRefusal {
  const fields = new URLSearchParams(body);
  const { data } = controlRequestSchema.safeParse(parsed(fields.get('request') ?? ''));
  if (data === undefined) return 'wrong_request';
  const back = fields.get('back') ?? '';
  const page = pagePathOf(`/${back}`);
  return { request: data, back: page === null || page.page === 'overview' ? './' : back };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const RESULT_TTL_MS = 10 * 60_000;
const MAX_RESULTS = 200;

/** Results for the page that is shown after a form. The address only has an id: else a link could show any text. */
function storedResults(clock: Clock) {
  const results = new Map<string, { told: ControlAnswer; at: number }>();
  return {
    add: (told: ControlAnswer): string => {
      const id = randomBytes(9).toString('base64url');
      results.set(id, { told, at: clock.monotonic() });
      const [oldest] = results.keys();
      if (results.size > MAX_RESULTS && oldest !== undefined) results.delete(oldest);
      return id;
    },
    find: (id: string): ControlAnswer | null => {
      const found = results.get(id);
      return found !== undefined && clock.monotonic() - found.at < RESULT_TTL_MS ? found.told : null;
    },
  };
}

/**
 * Detects requests that a browser sends for another site, by headers that scripts and forms cannot set: `Sec-Fetch-Site`,
 * and `Origin` against the requested host, or one of `hosts`. Programs send neither, but JSON, which browsers send to
 * another site only if that site allows it; this one never does.
 */
function forgeryOf(headers: Headers, hosts: readonly string[]): ControlRefusal | null {
  const site = headers.get('sec-fetch-site');
  if (site !== null && site !== 'same-origin') return 'other_site';
  const origin = headers.get('origin');
  if (origin === null) return site !== null || isJson(headers) ? null : 'no_origin';
  if (!/^https?:\/\/[^/]+$/.test(origin) || !URL.canParse(origin)) return 'other_origin';
  const from = new URL(origin).host.toLowerCase();
  // A proxy may request another name than its browser; no form or script of another site can set that header.
  const names = [headers.get('host'), headers.get('x-forwarded-host')];
  const isOwn = names.some((name) => name?.toLowerCase() === from);
  const isNamed = hosts.some((name) => name.toLowerCase() === from.replace(/:\d+$/, ''));
  return isOwn || isNamed ? null : 'other_origin';
}
