/**
 * The setting `alerts`: where problems are reported, as a POST (`post`), to Slack or by mail. Has the schema of these
 * channels, their checks, and the template of the body of a POST, such as `{"text": "{title}"}` (`renderAlertBody`).
 */
import { z } from 'zod';
import { isSecretName } from '../model/visible-text.ts';
import type { SettingsFinding } from './file/yaml-file.ts';
import { documented, duration } from './profile/basic-fields.ts';

/** What an alert may be about, in the order in which messages list it. */
export const ALERT_KINDS = [
  'failed',
  'overdue',
  'partial',
  'held_deletes',
  'dead_deliveries',
  'rejects',
  'files',
  'schema_change',
] as const;
export type AlertKind = (typeof ALERT_KINDS)[number];

/** Placeholders in the template of a body. */
const PLACEHOLDERS = ['status', 'title', 'text', 'count', 'kinds', 'sources', 'since', 'at', 'url'] as const;
type Placeholder = (typeof PLACEHOLDERS)[number];

/** A name in braces, which JSON does not contain. */
const IN_BRACES = /\{([a-z_]+)\}/g;

/** Fills in the placeholders of a template, escaped for the type of the body. */
export function renderAlertBody(template: string, contentType: string, valueOf: (name: Placeholder) => string): string {
  const [type = ''] = contentType.toLowerCase().split(';', 1);
  const escape = (value: string): string => {
    if (/[/+]json\s*$/.test(type)) return JSON.stringify(value).slice(1, -1);
    return type.trim() === 'application/x-www-form-urlencoded' ? encodeURIComponent(value) : value;
  };
  return template.replaceAll(IN_BRACES, (all, name: string) => {
    const known = PLACEHOLDERS.find((each) => each === name);
    return known === undefined ? all : escape(valueOf(known));
  });
}

/** Default type of a body. */
export const JSON_TYPE = 'application/json';

/** Returns Content-Type of the headers, or the default. */
export function findContentType(headers: Readonly<Record<string, string>>): string {
  const [, type] = Object.entries(headers).find(([name]) => name.toLowerCase() === 'content-type') ?? [];
  return type ?? JSON_TYPE;
}

/** Returns the fault of a template: unknown placeholders or invalid JSON; null for a valid one. */
export function bodyFault(template: string, headers: Readonly<Record<string, string>>): string | null {
  const names = Array.from(template.matchAll(IN_BRACES), ([, name = '']) => name);
  const unknown = names.find((name) => !PLACEHOLDERS.some((each) => each === name));
  if (unknown !== undefined) {
    return `expected only the placeholders ${PLACEHOLDERS.join(', ')} in braces, got {${unknown}}`;
  }
  const type = findContentType(headers);
  if (!/json/i.test(type)) return null;
  // Tries the texts that are hardest to escape: a quote, a backslash and a line break.
  try {
    JSON.parse(renderAlertBody(template, type, (name) => (name === 'count' ? '7' : '"\\\n')));
    return null;
  } catch {
    return 'expected JSON once its placeholders are filled in; put texts in quotes, such as {"text": "{title}"}';
  }
}

const URL_EXPECTED = 'expected an http(s) URL such as https://hooks.example.com/alerts';
const url = z.url({ protocol: /^https?$/, error: URL_EXPECTED });
const address = z.string().regex(/^[^\s@<>]+@[^\s@<>]+$|^[^<>]*<[^\s@<>]+@[^\s@<>]+>$/, 'expected an e-mail address');
const addresses = z.array(address).min(1);
const text = z.string().min(1);
const texts = z.array(text).min(1);
const kinds = z.array(z.enum(ALERT_KINDS)).min(1);
const count = z.int().min(0);
const port = count.min(1).max(65_535);
const repeat = duration.nullable().default(null);

const KIND_OF_CHANNEL = { description: 'A POST anywhere (`post`), an incoming webhook of Slack, or mail' };

/** Settings of every channel. */
const channelFields = {
  on: documented(kinds.optional())('What it reports; everything by default', [['failed', 'overdue']]),
  sources: texts.optional().meta({ description: 'Only these sources; all by default', examples: [['blog']] }),
  rejects_above: count.default(0).meta({ description: 'Rejected records only if a resource has more than this' }),
  group_wait: documented(duration.prefault('30s'))(
    'Wait for further incidents in one message; ends are reported after four times this',
  ),
  repeat: repeat.meta({ description: 'Interval of repeats; null for once', examples: ['4h'] }),
};

const postSchema = z
  .strictObject({
    type: z.literal('post').meta(KIND_OF_CHANNEL),
    url: url.meta({ description: 'Where messages are posted', examples: ['${ALERT_URL}'] }),
    headers: documented(
      z.record(z.string().regex(/^[A-Za-z0-9-]+$/, 'expected the name of a header'), z.string()).default({}),
    )('Further headers', [{ Authorization: 'Bearer ${ALERT_TOKEN}' }]),
    body: text.optional().meta({
      description: `Template of the body with {${PLACEHOLDERS.join('}, {')}}; by default an object with all of them`,
      examples: ['{"text": "{title}", "details": "{text}"}'],
    }),
    ...channelFields,
  })
  .check((context) => {
    const { body, headers } = context.value;
    const fault = body === undefined ? null : bodyFault(body, headers);
    if (fault !== null) context.issues.push({ code: 'custom', path: ['body'], message: fault, input: body });
  });

const slackSchema = z.strictObject({
  type: z.literal('slack').meta(KIND_OF_CHANNEL),
  url: url.meta({ description: "The incoming webhook's address", examples: ['${SLACK_WEBHOOK}'] }),
  ...channelFields,
});

const emailSchema = z.strictObject({
  type: z.literal('email').meta(KIND_OF_CHANNEL),
  host: text.meta({ description: 'The mail server', examples: ['smtp.example.com'] }),
  port: documented(port.optional())('Its port; 587, with `tls: implicit` 465, with `tls: none` 25', [587]),
  tls: z.enum(['starttls', 'implicit', 'none']).default('starttls').meta({
    description: 'Encryption: `starttls`, `implicit` or `none`',
  }),
  user: text.optional().meta({ description: 'Name to log in with', examples: ['content-sync'] }),
  password: text.optional().meta({ description: 'Its password', examples: ['${SMTP_PASSWORD}'] }),
  from: address.meta({ description: 'Sender', examples: ['content-sync <content-sync@example.com>'] }),
  to: addresses.meta({ description: 'Receivers', examples: [['ops@example.com']] }),
  ...channelFields,
});

const channelSchema = z.discriminatedUnion('type', [postSchema, slackSchema, emailSchema]);

export const alertsSchema = z
  .record(z.string().regex(/^[a-z][a-z0-9_-]{0,40}$/, 'expected a lower-case name such as ops'), channelSchema)
  .meta({ description: 'Where problems and their ends are reported: channels by name' });

export type AlertsSettings = z.output<typeof alertsSchema>;
export type ChannelSettings = AlertsSettings[string];

/** Shorter paths are not masked, because they may be common words. */
const MIN_PATH_LENGTH = 8;

/** Returns texts of the channels that must not be logged: anyone who knows a URL can post to it. */
export function alertSecrets(alerts: AlertsSettings): string[] {
  return Object.values(alerts).flatMap(channelSecrets);
}

function channelSecrets(channel: ChannelSettings): string[] {
  if (channel.type === 'email') return channel.password === undefined ? [] : [channel.password];
  const headers = channel.type === 'post' ? Object.entries(channel.headers) : [];
  // The path alone is secret too: an answer may quote it.
  const path = channel.url.replace(/^https?:\/\/[^/?#]+\/?/, '');
  const secret = path.length < MIN_PATH_LENGTH ? [channel.url] : [channel.url, path];
  return [...secret, ...headers.filter(([name]) => isSecretName(name)).map(([, value]) => value)];
}

/** Finds channels for unknown sources. */
export function alertFindings(alerts: AlertsSettings, known: readonly string[]): SettingsFinding[] {
  return Object.entries(alerts).flatMap(([channel, { sources = [] }]) =>
    sources.flatMap((source, at): SettingsFinding[] => {
      if (known.includes(source)) return [];
      const message = `expected the name of a source (${known.join(', ')}), got ${JSON.stringify(source)}`;
      return [{ path: ['alerts', channel, 'sources', at], part: 'value', message }];
    }),
  );
}
