// `content-sync deliveries`: lists, shows and replays webhook deliveries.
import { Command, Option } from 'commander';
import { openInboxToRead } from '../database/databases.ts';
import { DELIVERY_STATES, type DeliveryRow, type DeliveryState } from '../database/inbox.ts';
import { decodeText } from '../http/outcome/read-answer.ts';
import { ConfigError, SyncError } from '../model/errors.ts';
import { visibleText } from '../model/visible-text.ts';
import { formatNumber } from '../observe/format-values.ts';
import { findDelivery, replayDeliveries, replayedText } from '../server/controls/replay-deliveries.ts';
import { alignedLines, type CliContext, printReport, wholeNumber } from './command/context.ts';
import { type ChosenSource, forEachSource, sourceCommand, type SourceOptions, whileOpen } from './command/sources.ts';

export function deliveriesCommand(context: CliContext): Command {
  return new Command('deliveries')
    .helpCommand(false)
    .addCommand(listCommand(context))
    .addCommand(showCommand(context))
    .addCommand(replayCommand(context));
}

function listCommand(context: CliContext): Command {
  const state = new Option('--state <state>', 'Only deliveries in this state').choices(DELIVERY_STATES);
  const limit = new Option('--limit <number>', 'Max deliveries')
    .default(50)
    .argParser(wholeNumber('--limit', 1, 999_999));
  return sourceCommand('list')
    .description('List deliveries with their state, newest first')
    .addOption(state)
    .addOption(limit)
    .action(async (options: SourceOptions & { state?: DeliveryState; limit: number }) => {
      const { state, limit } = options;
      await inInboxes(context, options, async (source, inbox) => {
        const rows = await inbox.list({ limit, ...(state === undefined ? {} : { state }) });
        const report = { source, deliveries: rows.map(toJson) };
        printReport(context, report, `${source}\n${formatDeliveries(rows)}`);
      });
    });
}

function showCommand(context: CliContext): Command {
  return sourceCommand('show')
    .description('Show one delivery with its stored headers and its body')
    .argument('<delivery>', "Number in the list, or the sender's id")
    .action(async (name: string, options: SourceOptions) => {
      let found = 0;
      await inInboxes(context, options, async (source, inbox) => {
        const row = await findDelivery(inbox, name);
        if (row === null) return;
        found += 1;
        printDelivery(context, source, row);
      });
      if (found === 0) throw unknownDeliveries([name]);
    });
}

function replayCommand(context: CliContext): Command {
  return sourceCommand('replay')
    .description('Process deliveries again, as if they had just arrived')
    .argument('[delivery...]', "Numbers in the list, or the sender's ids")
    .option('--dead', 'All that are dead')
    .action(async (names: string[], options: SourceOptions & { dead?: true }) => {
      if ((options.dead === true) === names.length > 0) {
        throw new ConfigError('usage', 'replay needs either deliveries or --dead');
      }
      /** Deliveries that no inbox had so far. */
      let remaining = names;
      await forEachReceiving(context, options, async (chosen) => {
        const { name: source, warehouse } = chosen.source;
        const ids = options.dead === true ? null : remaining;
        const { replayed, unknown } = await replayDeliveries(warehouse, context.clock, ids);
        remaining = unknown;
        printReport(context, { source, replayed }, `${source}: ${replayedText(replayed)}`);
      });
      if (remaining.length > 0) throw unknownDeliveries(remaining);
    });
}

/** Opens the inbox of each chosen source that receives webhooks, and passes it to `work`. */
async function inInboxes(
  context: CliContext,
  options: SourceOptions,
  work: (source: string, inbox: Awaited<ReturnType<typeof openInboxToRead>>) => Promise<void>,
): Promise<void> {
  await forEachReceiving(context, options, async ({ source }) => {
    const opened = await openInboxToRead(source.warehouse, context.clock);
    await whileOpen(opened, (inbox) => work(source.name, inbox));
  });
}

/** Each chosen source that receives webhooks. Throws `ConfigError` if one is named that receives none. */
async function forEachReceiving(
  context: CliContext,
  options: SourceOptions,
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

function toJson({ body, headers: _headers, size: _size, ...rest }: DeliveryRow): object {
  return { ...rest, bytes: body.byteLength };
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

/** Prints a delivery with its headers and its body, which is base64 if it is no text. */
function printDelivery(context: CliContext, source: string, row: DeliveryRow): void {
  const { headers, body, size: _size, ...fields } = row;
  const text = decodeBody(body);
  const bodyText = text ?? Buffer.from(body).toString('base64');
  const content = { headers: JSON.parse(headers) as unknown, [text === null ? 'body_base64' : 'body']: bodyText };
  const lines = Object.entries({
    source,
    ...fields,
    headers,
    body: `${formatNumber(body.byteLength)} bytes${text === null ? ', no text; as base64:' : ''}`,
  }).flatMap(([name, value]) => (value === null ? [] : [`${name.padEnd(12)} ${visibleText(String(value))}`]));
  const bodyLines = bodyText.split('\n').map(visibleText);
  printReport(context, { source, delivery: { ...toJson(row), ...content } }, [...lines, '', ...bodyLines].join('\n'));
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
