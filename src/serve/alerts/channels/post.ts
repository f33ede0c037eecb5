import { EnvHttpProxyAgent, request } from 'undici';
import { messageOf } from '../../../model/errors.ts';
import { visibleText } from '../../../model/visible-text.ts';
import { retryAfter } from '../../../queue/limits/answer-limits.ts';
import { contentTypeOf, filledBody, JSON_TYPE, type Placeholder } from '../../../settings/alert-body.ts';
import type { ChannelSettings } from '../../../settings/alerts-schema.ts';
import type { Message } from '../message.ts';
import { codeOf, type Channel, type NotSent } from './channel.ts';

type PostSettings = Extract<ChannelSettings, { type: 'post' }>;
type SlackSettings = Extract<ChannelSettings, { type: 'slack' }>;

/** For one message, from the first connection to the end of the answer. */
export const DEADLINE_MS = 10_000;
/** Of an answer that refuses a message, so much is told. */
const LONGEST_ANSWER = 200;

interface Posting {
  url: string;
  headers: Readonly<Record<string, string>>;
  body: (message: Message) => string;
}

/** A POST anywhere. */
export function postChannel({ url, headers, body: template }: PostSettings): Channel {
  const type = contentTypeOf(headers);
  const body = (message: Message): string =>
    template === undefined ? JSON.stringify(message) : filledBody(template, type, (name) => VALUES[name](message));
  return posting({ url, headers: { 'content-type': type, ...lowerCased(headers) }, body });
}

/** Header names differ in case only by accident: one of each is sent. */
function lowerCased(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

const VALUES: Readonly<Record<Placeholder, (message: Message) => string>> = {
  status: ({ status }) => status,
  title: ({ title }) => title,
  text: ({ text }) => text,
  count: ({ count }) => String(count),
  kinds: ({ kinds }) => kinds.join(', '),
  sources: ({ sources }) => sources.join(', '),
  since: ({ since }) => since,
  at: ({ at }) => at,
  url: ({ url }) => url ?? '',
};

const LONGEST_SLACK = 3_500;

/** An incoming webhook of Slack, or of what takes the same, such as Mattermost. */
export function slackChannel({ url }: SlackSettings): Channel {
  return posting({ url, headers: { 'content-type': JSON_TYPE }, body: slackBody });
}

function slackBody({ title, text }: Message): string {
  const written = `*${slackText(title)}*\n${slackText(text)}`;
  return JSON.stringify({ text: written.length > LONGEST_SLACK ? `${written.slice(0, LONGEST_SLACK)}…` : written });
}

/** No text is taken for a mention, a link or a command. */
function slackText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

function posting({ url, headers, body }: Posting): Channel {
  const dispatcher = new EnvHttpProxyAgent({ connect: { timeout: DEADLINE_MS }, headersTimeout: DEADLINE_MS });
  return {
    send: async (message, signal) => {
      const until = AbortSignal.any([signal, AbortSignal.timeout(DEADLINE_MS)]);
      const sent = { method: 'POST', dispatcher, signal: until, body: body(message) } as const;
      try {
        return await outcomeOf(await request(url, { ...sent, headers: { 'user-agent': 'content-sync', ...headers } }));
      } catch (error) {
        return { problem: until.aborted ? 'no answer in time' : codeOf(error), waitMs: null };
      }
    },
    close: () => dispatcher.destroy(),
  };
}

type Answer = Awaited<ReturnType<typeof request>>;

/** A redirect is an answer like any other: what was posted to one address is not posted to another. */
async function outcomeOf({ statusCode, headers, body }: Answer): Promise<NotSent | null> {
  const waitMs = retryAfter({ headers, receivedAt: Date.now() }) ?? null;
  const said = await textOf(body);
  if (statusCode >= 200 && statusCode < 300) return null;
  const text = visibleText(said.slice(0, LONGEST_ANSWER).replaceAll(/\s+/g, ' ').trim());
  return { problem: `answered ${statusCode}${text === '' ? '' : `: ${text}`}`, waitMs };
}

/** The beginning of an answer; a long or broken one is cut off. */
async function textOf(body: Answer['body']): Promise<string> {
  let text = '';
  try {
    for await (const chunk of body) {
      text += String(chunk);
      if (text.length > LONGEST_ANSWER) break;
    }
  } catch (error) {
    return text === '' ? messageOf(error) : text;
  }
  return text;
}
