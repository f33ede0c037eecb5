import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { buffer } from 'node:stream/consumers';
import { Command, Option } from 'commander';
import { request } from 'undici';
import { z } from 'zod';
import type { ServeSettings, Settings, SourceSettings, WebhookSettings } from '../config/settings.ts';
import { openInboxToRead } from '../database/databases.ts';
import { DELIVERY_STATES, type DeliveryRow, type DeliveryState } from '../database/inbox.ts';
import { decodeText } from '../http/outcome/read-answer.ts';
import { ConfigError, messageOf, SyncError } from '../model/errors.ts';
import { visibleText } from '../model/visible-text.ts';
import { countText } from '../observe/figures.ts';
import { findDelivery, replayDeliveries, type Replayed, replayedText } from '../server/controls/replay-deliveries.ts';
import { signDelivery, type SignedDelivery } from '../server/signature/sign-delivery.ts';
import { type CliContext, EXIT_CODES } from './command/context.ts';
import { failureOf, findServe } from './command/find-serve.ts';
import { alignedLines, printReport } from './command/output.ts';
import {
  type ChosenSource,
  forEachSource,
  readSettings,
  sourceCommand,
  type SourceOptions,
  whileOpen,
  withSourceOptions,
} from './command/sources.ts';
import { limitFrom } from './runs.ts';

interface SendOptions extends SourceOptions {
  url?: string;
  id?: string;
  header?: Record<string, string>;
}

/** The meaning of a receiver's status, for a user who tests a signature scheme. */
const MEANINGS: Readonly<Record<number, string>> = {
  202: 'stored; a running `serve` fetches the record, see `content-sync deliveries list`',
  401: 'the signature, its time or its secret was not accepted: check that the receiver runs with this config',
  404: 'the receiver has no such address: check webhook.secrets of this source, and the path',
  405: 'the address takes POST only',
  413: 'the body is larger than webhook.max_body',
  415: 'the content type is not one that the receiver takes',
  503: 'it could not be stored now; a service would send it again',
};
const TIMEOUT_MS = 10_000;

/** `content-sync webhooks`: tests how deliveries are signed. */
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
  const url = receiverUrl(options.url, settings.serve, source.name);
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
    MEANINGS[status] ?? (isTaken ? 'accepted' : 'not a response of a content-sync receiver: check the address');
  context.stdout.write(`${id}  ${status}  ${meaning}\n`);
  context.exit(isTaken ? EXIT_CODES.ok : EXIT_CODES.failed);
}

/** Hosts that mean "every address of this machine". */
const ANY_HOST: ReadonlySet<string> = new Set(['0.0.0.0', '::', '[::]']);

function receiverUrl(given: string | undefined, { host, port }: ServeSettings, source: string): URL {
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
    throw new SyncError('unreachable', `no response from ${url.origin}${url.pathname}: ${messageOf(cause)}`, {
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

type ReceivingSource = { source: SourceSettings; webhook: WebhookSettings };

/** The one source that receives webhooks. Throws `ConfigError` if there is not just one. */
function receivingSource({ sources }: Settings): ReceivingSource {
  const found = Object.values(sources).flatMap((source): ReceivingSource[] =>
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

type DeliveryOptions = SourceOptions;

/** `content-sync deliveries`: what came in by webhook and what became of it; asks only the inbox. */
export function deliveriesCommand(context: CliContext): Command {
  return new Command('deliveries')
    .helpCommand(false)
    .addCommand(listCommand(context))
    .addCommand(showCommand(context))
    .addCommand(replayCommand(context));
}

function listCommand(context: CliContext): Command {
  const state = new Option('--state <state>', 'Only deliveries in this state').choices(DELIVERY_STATES);
  const limit = new Option('--limit <number>', 'Max deliveries').default(50).argParser(limitFrom);
  return subcommand('list', 'List deliveries with their state, newest first')
    .addOption(state)
    .addOption(limit)
    .action(async (options: DeliveryOptions & { state?: DeliveryState; limit: number }) => {
      const { state, limit } = options;
      await inInboxes(context, options, async (source, inbox) => {
        const rows = await inbox.list({ limit, ...(state === undefined ? {} : { state }) });
        const report = { source, deliveries: rows.map(toJson) };
        printReport(context, report, `${source}\n${formatDeliveries(rows)}`);
      });
    });
}

function showCommand(context: CliContext): Command {
  return subcommand('show', 'Show one delivery with its stored headers and its body')
    .argument('<delivery>', "Number in the list, or the sender's id")
    .action(async (name: string, options: DeliveryOptions) => {
      let found = 0;
      await inInboxes(context, options, async (source, inbox) => {
        const row = await findDelivery(inbox, name);
        if (row === null) return;
        found += 1;
        printReport(context, { source, delivery: { ...toJson(row), ...content(row) } }, formatDelivery(source, row));
      });
      if (found === 0) throw unknownDeliveries([name]);
    });
}

function replayCommand(context: CliContext): Command {
  return subcommand('replay', 'Process deliveries again, as if they had just arrived')
    .argument('[delivery...]', "Numbers in the list, or the sender's ids")
    .option('--dead', 'All that are dead')
    .action(async (names: string[], options: DeliveryOptions & { dead?: true }) => {
      if ((options.dead === true) === names.length > 0) {
        throw new ConfigError('usage', 'replay needs either deliveries or --dead');
      }
      let left = names;
      await forEachReceiving(context, options, async (chosen) => {
        const { name: source } = chosen.source;
        const { replayed, unknown } = await replay(context, chosen, options.dead === true ? null : left);
        left = unknown;
        printReport(context, { source, replayed }, `${source}: ${replayedText(replayed)}`);
      });
      if (left.length > 0) throw unknownDeliveries(left);
    });
}

function subcommand(name: string, about: string): Command {
  return sourceCommand(name).description(about);
}

/** By the running `serve`, which takes them up at once, or by this process. */
async function replay(context: CliContext, chosen: ChosenSource, names: readonly string[] | null): Promise<Replayed> {
  const { name: source, warehouse } = chosen.source;
  const door = await findServe(context, chosen);
  const ids = names === null ? {} : { ids: [...names] };
  const asked = await door?.send({ action: 'replay', source, ...ids }, context.signal);
  const replayed = replayedSchema.safeParse(asked?.answer.result);
  if (replayed.success) return replayed.data;
  if (asked !== undefined && asked.answer.code !== 'unknown_source') throw failureOf(asked.answer);
  return replayDeliveries(warehouse, context.clock, names);
}

const replayedSchema = z.object({ replayed: z.number(), unknown: z.array(z.string()) });

/** Opens the inbox of each chosen source that receives webhooks, and runs `look` on it. */
async function inInboxes(
  context: CliContext,
  options: DeliveryOptions,
  look: (source: string, inbox: Awaited<ReturnType<typeof openInboxToRead>>) => Promise<void>,
): Promise<void> {
  await forEachReceiving(context, options, async ({ source }) => {
    const opened = await openInboxToRead(source.warehouse, context.clock);
    await whileOpen(opened, (inbox) => look(source.name, inbox));
  });
}

/** Each chosen source that receives webhooks. Throws `ConfigError` if one is named that receives none. */
async function forEachReceiving(
  context: CliContext,
  options: DeliveryOptions,
  work: (chosen: ChosenSource) => Promise<void>,
): Promise<void> {
  await forEachSource(context, options, [], async (chosen) => {
    if (chosen.source.webhook !== null) return work(chosen);
    if (options.source === undefined) return;
    throw new ConfigError('usage', `source ${chosen.source.name} receives no webhooks`, {
      hint: 'set webhook.secrets in its settings',
    });
  });
}

function toJson(row: DeliveryRow): object {
  const { body, headers: _headers, size: _size, ...rest } = row;
  return { ...rest, bytes: body.byteLength };
}

function content({ headers, body }: DeliveryRow): object {
  const kept: unknown = JSON.parse(headers);
  const text = decodeBody(body);
  return { headers: kept, ...(text === null ? { body_base64: Buffer.from(body).toString('base64') } : { body: text }) };
}

const HEAD = ['no.', 'received (UTC)', 'state', 'kind', 'resource', 'record', 'tries', 'id', 'reason'] as const;

function formatDeliveries(rows: readonly DeliveryRow[]): string {
  if (rows.length === 0) return '  no deliveries';
  const cells = rows.map((row) =>
    [
      String(row.seq),
      row.received_at.slice(0, 19),
      row.state,
      row.kind ?? '–',
      row.resource ?? '–',
      row.record_id ?? '–',
      String(row.attempts),
      row.delivery_id,
      formatNote(row),
    ].map(visibleText),
  );
  return alignedLines([HEAD, ...cells])
    .map((line) => `  ${line}`)
    .join('\n');
}

function formatNote({ differs_from, reason }: DeliveryRow): string {
  const different = differs_from === null ? null : `another body came under the id ${differs_from} first`;
  return [different, reason].filter((text) => text !== null).join('; ');
}

function formatDelivery(source: string, row: DeliveryRow): string {
  const { headers, body, size: _size, ...fields } = row;
  const lines = Object.entries({ source, ...fields }).filter(([, value]) => value !== null);
  const text = decodeBody(body);
  return [
    ...lines.map(([name, value]) => `${name.padEnd(12)} ${visibleText(String(value))}`),
    `${'headers'.padEnd(12)} ${visibleText(headers)}`,
    `${'body'.padEnd(12)} ${countText(body.byteLength)} bytes${text === null ? ', no text; as base64:' : ''}`,
    '',
    ...(text ?? Buffer.from(body).toString('base64')).split('\n').map(visibleText),
  ].join('\n');
}

function decodeBody(body: Uint8Array): string | null {
  try {
    return decodeText(Buffer.from(body.buffer, body.byteOffset, body.byteLength), '').text;
  } catch (error) {
    if (error instanceof SyncError) return null;
    throw error;
  }
}

function unknownDeliveries(names: readonly string[]): ConfigError {
  return new ConfigError('usage', `there is no delivery ${names.join(', ')}`, {
    hint: 'run content-sync deliveries list to see the stored ones',
  });
}
