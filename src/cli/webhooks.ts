import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { buffer } from 'node:stream/consumers';
import { Command } from 'commander';
import { request } from 'undici';
import type { ServeSettings, Settings, SourceSettings, WebhookSettings } from '../config/settings.ts';
import { ConfigError, messageOf, SyncError } from '../model/errors.ts';
import { signDelivery, type SignedDelivery } from '../server/signature/sign-delivery.ts';
import { type CliContext, EXIT_CODES } from './command/context.ts';
import { readSettings, type SourceOptions, withSourceOptions } from './command/sources.ts';

interface SendOptions extends SourceOptions {
  url?: string;
  id?: string;
  header?: Record<string, string>;
}

/** What a receiver's status means for somebody who tries a signature scheme out. */
const MEANINGS: Readonly<Record<number, string>> = {
  202: 'stored; a running `serve` now reads the record again, see `content-sync deliveries list`',
  401: 'the signature, its time or its secret was not accepted: does the receiver run with this same config?',
  404: 'the receiver has no such address: is webhook.secrets set for this source, and does the path name it?',
  405: 'the address takes POST only',
  413: 'the body is larger than webhook.max_body',
  415: 'the content type is not one that the receiver takes',
  503: 'it could not be stored just now; a service would send it again',
};
const TIMEOUT_MS = 10_000;

/** `content-sync webhooks`: to try out how deliveries are signed. */
export function webhooksCommand(context: CliContext): Command {
  const send = withSourceOptions(new Command('send'))
    .description('Sign a file as the service would, and post it to a running receiver')
    .argument('<file>', 'Body of the delivery; - reads stdin')
    .option('--url <url>', 'Address of the receiver (default: /webhooks/<source> at serve.host and serve.port)')
    .option('--id <id>', 'Id of the delivery (default: random)')
    .option('--header <name:value>', 'Additional header; repeatable', withHeader)
    .action((file: string, options: SendOptions) => sendDelivery(context, file, options));
  return new Command('webhooks').helpCommand(false).addCommand(send);
}

async function sendDelivery(context: CliContext, file: string, options: SendOptions): Promise<void> {
  const settings = readSettings(context, options);
  const { source, webhook } = receivingSource(settings);
  const url = addressOf(options.url, settings.serve, source.name);
  const id = options.id ?? `msg_${randomUUID()}`;
  const at = context.clock.now();
  const secret = webhook.secrets.find(({ until }) => until === undefined || until > at);
  if (secret === undefined) throw new ConfigError('usage', `no secret of source ${source.name} is valid any more`);
  const signed = signDelivery(source.profile.webhooks.signature, secret, {
    body: await bodyFrom(context, file),
    id,
    at,
    method: 'POST',
    path: url.pathname + url.search,
    publicUrl: webhook.public_url ?? null,
    headers: options.header ?? {},
  });
  const status = await post(new URL(signed.path, url), signed, context.signal);
  const isTaken = status >= 200 && status < 300;
  const meaning =
    MEANINGS[status] ?? (isTaken ? 'taken' : 'this is no answer of a receiver of ours: is the address right?');
  context.stdout.write(`${id}  ${status}  ${meaning}\n`);
  context.exit(isTaken ? EXIT_CODES.ok : EXIT_CODES.failed);
}

/** Hosts that mean "every address of this machine". */
const ANY_HOST: ReadonlySet<string> = new Set(['0.0.0.0', '::', '[::]']);

function addressOf(given: string | undefined, { host, port }: ServeSettings, source: string): URL {
  const own = ANY_HOST.has(host) ? '127.0.0.1' : host;
  const text = given ?? `http://${own.includes(':') ? `[${own}]` : own}:${port}/webhooks/${source}`;
  const url = URL.parse(text);
  if (url !== null && /^https?:$/.test(url.protocol)) return url;
  throw new ConfigError('usage', `--url must be an http(s) URL, not "${text}"`);
}

async function bodyFrom({ cwd }: CliContext, file: string): Promise<Buffer> {
  if (file === '-') return buffer(process.stdin);
  try {
    return readFileSync(path.resolve(cwd, file));
  } catch (cause) {
    throw new ConfigError('usage', `cannot read ${file}: ${messageOf(cause)}`, { cause });
  }
}

async function post(url: URL, { headers, body }: SignedDelivery, signal: AbortSignal): Promise<number> {
  try {
    const answer = await request(url, {
      method: 'POST',
      headers,
      body,
      signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
    });
    await answer.body.dump();
    return answer.statusCode;
  } catch (cause) {
    signal.throwIfAborted();
    throw new SyncError('unreachable', `no answer from ${url.origin}${url.pathname}: ${messageOf(cause)}`, {
      recovery: 'retry',
      hint: 'start the receiver with `content-sync serve`, or name its address with --url',
      cause,
    });
  }
}

function withHeader(text: string, before: Record<string, string> = {}): Record<string, string> {
  const [, name, value] = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):\s*([\t\x20-\x7e]*)$/.exec(text) ?? [];
  if (name === undefined || value === undefined) {
    throw new ConfigError('usage', `--header must be <name>:<value> in printable ASCII, not "${text}"`);
  }
  return { ...before, [name.toLowerCase()]: value };
}

type Receiving = { source: SourceSettings; webhook: WebhookSettings };

/** The one source that receives webhooks. Throws `ConfigError` if there is not just one. */
function receivingSource({ sources }: Pick<Settings, 'sources'>): Receiving {
  const found = Object.values(sources).flatMap((source): Receiving[] =>
    source.webhook === null ? [] : [{ source, webhook: source.webhook }],
  );
  const [first] = found;
  if (first !== undefined && found.length === 1) return first;
  const names = found.map(({ source }) => source.name).join(', ');
  throw first === undefined
    ? new ConfigError('usage', 'no webhooks are received', {
        hint: 'set webhook.secrets in the settings of the source',
      })
    : new ConfigError('usage', 'several sources receive webhooks', { hint: `name one of ${names} with --source` });
}
