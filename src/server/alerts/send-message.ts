// Sends an alert message by the channel of the settings: POST, Slack or mail.
import { EnvHttpProxyAgent, request } from 'undici';
import { type ChannelSettings, findContentType, JSON_TYPE, renderAlertBody } from '../../config/alerts-schema.ts';
import { retryAfter } from '../../http/rate-limit/answer-limits.ts';
import { visibleText } from '../../model/visible-text.ts';
import { unlessAborted } from '../../model/waiting.ts';
import type { AlertMessage } from './message.ts';

type EmailSettings = Extract<ChannelSettings, { type: 'email' }>;
type PostSettings = Exclude<ChannelSettings, EmailSettings>;

/** Why a message was not delivered, without the address, and how long the receiver asks the sender to wait. */
interface NotSent {
  problem: string;
  waitMs: number | null;
}

/** The limit for a POST in all; for mail, for each step of the connection. */
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

/** Posts a message. Redirects are not followed, because a message must not reach another address. */
async function postMessage(
  settings: PostSettings,
  message: AlertMessage,
  signal: AbortSignal,
): Promise<NotSent | null> {
  const configured = settings.type === 'slack' ? {} : settings.headers;
  const all = Object.entries({ 'user-agent': 'content-sync', 'content-type': JSON_TYPE, ...configured });
  // In lower case, so that a configured header replaces the default one.
  const headers = Object.fromEntries(all.map(([name, value]) => [name.toLowerCase(), value]));
  const dispatcher = new EnvHttpProxyAgent({ connect: { timeout: TIMEOUT_MS }, maxResponseSize: MAX_ANSWER_BYTES });
  try {
    const body = toBody(settings, message);
    const answer = await request(settings.url, { method: 'POST', dispatcher, signal, headers, body });
    const text = await answer.body.text().catch(() => '');
    if (answer.statusCode >= 200 && answer.statusCode < 300) return null;
    const detail = visibleText(text.slice(0, MAX_ANSWER_CHARS).replaceAll(/\s+/g, ' ').trim());
    const waitMs = retryAfter({ headers: answer.headers, receivedAt: Date.now() });
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

/** Returns `ECONNREFUSED` or `EAUTH (535)`, for example. The message of the error may contain an address. */
function errorCode(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return errorCode(error.errors[0]);
  if (!(error instanceof Error && 'code' in error && typeof error.code === 'string')) return 'no answer';
  return 'responseCode' in error ? `${error.code} (${String(error.responseCode)})` : error.code;
}
