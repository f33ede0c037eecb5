// The text of an alert message, and sending it by POST, Slack or mail. The wording of each problem is in
// status/attention.ts; this file groups the problems of one message and formats it.
import { EnvHttpProxyAgent, request } from 'undici';
import {
  ALERT_KINDS,
  type ChannelSettings,
  findContentType,
  JSON_TYPE,
  renderAlertBody,
} from '../../config/alerts-schema.ts';
import type { SentAlert } from '../../database/state/server-state.ts';
import { retryAfter } from '../../http/rate-limit/answer-limits.ts';
import { visibleText } from '../../model/visible-text.ts';
import { unlessAborted } from '../../model/waiting.ts';
import { formatCount, formatDuration } from '../../observe/format-values.ts';
import { ALERT_TITLES } from '../status/attention.ts';
import type { Condition } from './plan-alerts.ts';

type ReportedProblem = Omit<Condition, 'alert' | 'count'>;

/** A message, which each type of channel formats in its own way; a POST sends it as JSON. Times are ISO text in UTC. */
export interface AlertMessage {
  status: 'firing' | 'over' | 'test';
  /** One line. */
  title: string;
  /** The rest, in lines. */
  text: string;
  /** How many things it reports; `things` has the first of them. */
  count: number;
  kinds: string[];
  sources: string[];
  /** When the first of them began. */
  since: string;
  at: string;
  /** Of the page; null if it is not known. */
  url: string | null;
  things: (Omit<ReportedProblem, 'since' | 'cause'> & { since: string })[];
}

interface MessageContext {
  now: number;
  /** The page's address; null if it is not known. */
  publicUrl: string | null;
  scrub: (text: string) => string;
}

const MAX_GROUPS = 20;
const MAX_SOURCES = 8;
const MAX_RESOURCES = 5;
const MAX_THINGS = 100;
const MAX_LINE_CHARS = 500;

/** Reports what has begun, or lasts. `begun` must not be empty. */
export function begunMessage(begun: readonly Condition[], context: MessageContext): AlertMessage {
  return toMessage('firing', begun, context);
}

/** Reports what has ended. `over` must not be empty. */
export function overMessage(over: readonly SentAlert[], context: MessageContext): AlertMessage {
  const things = over.map(({ source, alert, what, since }): ReportedProblem => {
    // `alert` is the kind, followed by the resource if it has one (see `Condition`).
    const [storedKind, resource = null] = alert.split(' ');
    const kind = ALERT_KINDS.find((each) => each === storedKind) ?? 'failed';
    return { kind, source, resource, since, what, next: null, command: null, cause: '' };
  });
  return toMessage('over', things, context);
}

export function testMessage(channel: string, now: number, url: string | null): AlertMessage {
  const at = new Date(now).toISOString();
  const title = `content-sync: test of the alerts to ${channel}`;
  const text = 'This is a test (`content-sync alerts test`). Nothing is wrong, and there is nothing to do.';
  return { status: 'test', title, text, count: 0, kinds: [], sources: [], since: at, at, url, things: [] };
}

function toMessage(status: 'firing' | 'over', all: readonly ReportedProblem[], context: MessageContext): AlertMessage {
  const { now, publicUrl, scrub } = context;
  const toLine = (text: string): string => {
    const clean = scrub(text).replaceAll(/\s+/g, ' ');
    return clean.length > MAX_LINE_CHARS ? `${clean.slice(0, MAX_LINE_CHARS - 1)}…` : clean;
  };
  const things = all
    .map(({ what, next, command, ...thing }): ReportedProblem => {
      return { ...thing, what: toLine(what), next: next && toLine(next), command: command && scrub(command) };
    })
    .toSorted((a, b) => ALERT_KINDS.indexOf(a.kind) - ALERT_KINDS.indexOf(b.kind));
  const groups = [...Map.groupBy(things, ({ kind, cause }) => `${kind} ${cause}`).values()];
  const kinds = [...new Set(things.map(({ kind }) => kind))];
  const sources = [...new Set(things.map(({ source }) => source))];
  const anchor = sources.length === 1 ? `#${encodeURIComponent(sources.join(''))}` : '';
  const url = publicUrl === null ? null : `${publicUrl}${anchor}`;
  const more = groups.length > MAX_GROUPS ? [`and ${formatCount(groups.length - MAX_GROUPS, 'further kind')}`] : [];
  const names = sources.length > 3 ? formatCount(sources.length, 'source') : formatNames(things);
  const lines = groups.slice(0, MAX_GROUPS).map((group) => formatGroup(status, group, now));
  return {
    status,
    title: `content-sync: ${status === 'over' ? 'over: ' : ''}${kinds.map((kind) => ALERT_TITLES[kind]).join(', ')}: ${names}`,
    text: [...lines, ...more, ...(url === null ? [] : [url])].join('\n\n'),
    count: things.length,
    kinds,
    sources,
    since: new Date(Math.min(...things.map(({ since }) => since))).toISOString(),
    at: new Date(now).toISOString(),
    url,
    things: things
      .slice(0, MAX_THINGS)
      .map(({ cause: _cause, since, ...thing }) => Object.assign(thing, { since: new Date(since).toISOString() })),
  };
}

/** Formats `blog (content, images), shop`. */
function formatNames(things: readonly ReportedProblem[]): string {
  const sources = [...Map.groupBy(things, ({ source }) => source)].map(([source, problems]) => {
    const resources = [...new Set(problems.flatMap(({ resource }) => resource ?? []))];
    return resources.length === 0 ? source : `${source} (${formatList(resources, MAX_RESOURCES)})`;
  });
  return formatList(sources, MAX_SOURCES);
}

function formatList(names: readonly string[], max: number): string {
  const rest = names.length - max;
  return `${names.slice(0, max).join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}

function formatGroup(status: 'firing' | 'over', group: readonly ReportedProblem[], now: number): string {
  const [first] = group;
  if (first === undefined) return '';
  const { kind, what, next, command } = first;
  const began = Math.min(...group.map(({ since }) => since));
  const since = `${new Date(began).toISOString().slice(0, 16).replace('T', ' ')} UTC`;
  const head = `${ALERT_TITLES[kind].toUpperCase()}: ${formatNames(group)}`;
  if (status === 'over') {
    return `${head}\nOver. It began at ${since} and lasted ${formatDuration((now - began) / 1_000)}.`;
  }
  const isChange = kind === 'schema_change';
  const problems = isChange ? group.slice(0, MAX_GROUPS).map((each) => each.what) : [what];
  const remedy = [next && `→ ${next}`, command && `$ ${command}`].filter((line) => line !== null);
  return [head, ...problems, `${isChange ? 'at' : 'since'} ${since}`, ...remedy].join('\n');
}

type EmailSettings = Extract<ChannelSettings, { type: 'email' }>;
type PostSettings = Exclude<ChannelSettings, EmailSettings>;

/** Why a message was not delivered, without the address, and how long the receiver asks the sender to wait. */
interface NotSent {
  problem: string;
  waitMs: number | null;
}

/** For a whole POST; for mail, for each step of the connection. */
const TIMEOUT_MS = 10_000;
const MAX_ANSWER_BYTES = 65_536;
const MAX_ANSWER_CHARS = 200;
const MAX_SLACK_CHARS = 3_500;
const MAIL_PORTS: Readonly<Record<EmailSettings['tls'], number>> = { starttls: 587, implicit: 465, none: 25 };

/** Sends a message by one channel. Resolves with null once the receiver has accepted it; never rejects. */
export async function sendMessage(
  settings: ChannelSettings,
  message: AlertMessage,
  signal: AbortSignal,
): Promise<NotSent | null> {
  const until = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]);
  try {
    if (settings.type !== 'email') return await postMessage(settings, message, until);
    await unlessAborted(sendMail(settings, message), signal);
    return null;
  } catch (error) {
    const isLate = settings.type !== 'email' && until.aborted;
    return { problem: isLate ? 'no answer in time' : errorCode(error), waitMs: null };
  }
}

async function sendMail(settings: EmailSettings, { title, text }: AlertMessage): Promise<void> {
  const { host, port, tls, user, password, from, to } = settings;
  // The library is loaded with the first mail, because most processes never send one.
  const { createTransport } = await import('nodemailer');
  const transport = createTransport({
    host,
    port: port ?? MAIL_PORTS[tls],
    secure: tls === 'implicit',
    requireTLS: tls === 'starttls',
    ignoreTLS: tls === 'none',
    connectionTimeout: TIMEOUT_MS,
    greetingTimeout: TIMEOUT_MS,
    socketTimeout: TIMEOUT_MS,
    ...(user === undefined ? {} : { auth: { user, pass: password ?? '' } }),
    // The text of a message must not make the library read a file or an address.
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  await transport.sendMail({ from, to, subject: title, text: `${text}\n` });
}

/** Does not follow redirects: what is meant for one address must not reach another. */
async function postMessage(
  settings: PostSettings,
  message: AlertMessage,
  signal: AbortSignal,
): Promise<NotSent | null> {
  const configured = settings.type === 'slack' ? {} : settings.headers;
  const all = Object.entries({ 'user-agent': 'content-sync', 'content-type': JSON_TYPE, ...configured });
  // Lower case, so that a header of the settings replaces the usual one.
  const headers = Object.fromEntries(all.map(([name, value]) => [name.toLowerCase(), value]));
  const dispatcher = new EnvHttpProxyAgent({ connect: { timeout: TIMEOUT_MS }, maxResponseSize: MAX_ANSWER_BYTES });
  try {
    const body = toBody(settings, message);
    const answer = await request(settings.url, { method: 'POST', dispatcher, signal, headers, body });
    const text = await answer.body.text().catch(() => '');
    if (answer.statusCode >= 200 && answer.statusCode < 300) return null;
    const detail = visibleText(text.slice(0, MAX_ANSWER_CHARS).replaceAll(/\s+/g, ' ').trim());
    const waitMs = retryAfter({ headers: answer.headers, receivedAt: Date.now() }) ?? null;
    return { problem: `answered ${answer.statusCode}${detail === '' ? '' : `: ${detail}`}`, waitMs };
  } finally {
    await dispatcher.destroy();
  }
}

function toBody(settings: PostSettings, message: AlertMessage): string {
  if (settings.type === 'slack') {
    // Escaped, so that Slack reads no mention, link or command in it.
    const raw = `*${message.title}*\n${message.text}`;
    const text = raw.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
    return JSON.stringify({ text: text.length > MAX_SLACK_CHARS ? `${text.slice(0, MAX_SLACK_CHARS)}…` : text });
  }
  if (settings.body === undefined) return JSON.stringify(message);
  return renderAlertBody(settings.body, findContentType(settings.headers), (name) =>
    [message[name] ?? ''].flat().join(', '),
  );
}

/** Such as `ECONNREFUSED` or `EAUTH (535)`: not the message of the error, which may contain an address. */
function errorCode(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return errorCode(error.errors[0]);
  if (!(error instanceof Error && 'code' in error && typeof error.code === 'string')) return 'no answer';
  return 'responseCode' in error ? `${error.code} (${String(error.responseCode)})` : error.code;
}
