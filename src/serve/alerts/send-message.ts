import { EnvHttpProxyAgent, request } from 'undici';
import { visibleText } from '../../model/visible-text.ts';
import { unlessAborted } from '../../model/waiting.ts';
import { retryAfter } from '../../queue/limits/answer-limits.ts';
import { contentTypeOf, filledBody, JSON_TYPE } from '../../settings/alert-body.ts';
import type { ChannelSettings } from '../../settings/alerts-schema.ts';
import type { Message } from './message.ts';

type EmailSettings = Extract<ChannelSettings, { type: 'email' }>;
type PostSettings = Exclude<ChannelSettings, EmailSettings>;

/** Why a message was not delivered, without the address, and how long the receiver asks the sender to wait. */
export interface NotSent {
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
  message: Message,
  signal: AbortSignal,
): Promise<NotSent | null> {
  try {
    if (settings.type !== 'email') return await postMessage(settings, message, signal);
    await unlessAborted(sendMail(settings, message), signal);
    return null;
  } catch (error) {
    return { problem: errorCode(error), waitMs: null };
  }
}

async function sendMail(settings: EmailSettings, { title, text }: Message): Promise<void> {
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
async function postMessage(settings: PostSettings, message: Message, signal: AbortSignal): Promise<NotSent | null> {
  const own = settings.type === 'slack' ? {} : settings.headers;
  const all = Object.entries({ 'user-agent': 'content-sync', 'content-type': JSON_TYPE, ...own });
  // Lower case, so that a header of the settings replaces the usual one.
  const headers = Object.fromEntries(all.map(([name, value]) => [name.toLowerCase(), value]));
  const until = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]);
  const dispatcher = new EnvHttpProxyAgent({ connect: { timeout: TIMEOUT_MS }, maxResponseSize: MAX_ANSWER_BYTES });
  try {
    const sent = { method: 'POST', dispatcher, signal: until, headers, body: toBody(settings, message) } as const;
    const { statusCode, headers: answered, body } = await request(settings.url, sent);
    const text = await body.text().catch(() => '');
    if (statusCode >= 200 && statusCode < 300) return null;
    const shown = visibleText(text.slice(0, MAX_ANSWER_CHARS).replaceAll(/\s+/g, ' ').trim());
    const waitMs = retryAfter({ headers: answered, receivedAt: Date.now() }) ?? null;
    return { problem: `answered ${statusCode}${shown === '' ? '' : `: ${shown}`}`, waitMs };
  } catch (error) {
    return { problem: until.aborted ? 'no answer in time' : errorCode(error), waitMs: null };
  } finally {
    await dispatcher.destroy();
  }
}

function toBody(settings: PostSettings, message: Message): string {
  if (settings.type === 'slack') {
    // Escaped, so that Slack reads no mention, link or command in it.
    const written = `*${message.title}*\n${message.text}`;
    const text = written.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
    return JSON.stringify({ text: text.length > MAX_SLACK_CHARS ? `${text.slice(0, MAX_SLACK_CHARS)}…` : text });
  }
  if (settings.body === undefined) return JSON.stringify(message);
  return filledBody(settings.body, contentTypeOf(settings.headers), (name) => [message[name] ?? ''].flat().join(', '));
}

/** Such as `ECONNREFUSED` or `EAUTH (535)`: not the message of the error, which may contain an address. */
function errorCode(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return errorCode(error.errors[0]);
  if (!(error instanceof Error && 'code' in error && typeof error.code === 'string')) return 'no answer';
  return 'responseCode' in error ? `${error.code} (${String(error.responseCode)})` : error.code;
}
