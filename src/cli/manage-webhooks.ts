import { Command } from 'commander';
import { openProbe } from '../app.ts';
import { ConfigError } from '../model/errors.ts';
import { visibleText } from '../model/visible-text.ts';
import { createLog } from '../observe/log.ts';
import type { SourceSettings, WebhookSettings } from '../settings/settings.ts';
import type { WebhookManagement } from '../source/webhook-manage.ts';
import {
  listWebhooks,
  makeWebhook,
  removeWebhook,
  wantedWebhooks,
  type ListedWebhook,
  type ManagingContext,
  type WantedWebhook,
} from '../sync/manage-webhooks.ts';
import type { CliContext } from './command/context.ts';
import { EXIT_CODES } from './command/exit-code.ts';
import { findWarehouse } from './command/find-warehouse.ts';
import { alignedLines, print } from './command/output.ts';
import { receivingSource } from './command/receiving-source.ts';
import { readSettings, withSourceOptions, type SourceOptions } from './command/sources.ts';
import { whileOpen } from './command/with-app.ts';

interface ManageOptions extends SourceOptions {
  url?: string;
  dryRun?: true;
  json?: true;
}

/** One webhook and what was done about it. */
interface Managed {
  id: string | null;
  event: string | null;
  state: string;
}

/** A source whose webhooks are managed. */
interface Managing extends ManagingContext {
  source: SourceSettings;
  /** The secret that a new webhook gets; null if none of the source's holds any more. */
  secret: string | null;
}

type Work = (managing: Managing, options: ManageOptions, context: CliContext) => Promise<object>;

/** `content-sync webhooks register`, `list` and `remove`: the only requests that change something at the service. */
export function managingCommands(context: CliContext): Command[] {
  const command = (name: string, about: string, work: Work): Command =>
    withSourceOptions(new Command(name))
      .description(about)
      .option('--url <url>', 'address at which the service sees the receiver (else webhook.public_url of the source)')
      .option('--json', 'print one JSON object on stdout')
      .action((options: ManageOptions) => run(context, options, work));
  const register = command(
    'register',
    'have the service send its webhooks here; one that is there is left alone',
    registerAll,
  );
  const list = command('list', 'webhooks that the service has, and which of them lead here', listAll);
  const remove = command('remove', 'remove from the service the webhooks that lead here, and no others', removeAll);
  for (const writing of [register, remove]) writing.option('--dry-run', 'only tell what would be done');
  return [register, list, remove];
}

async function run(context: CliContext, options: ManageOptions, work: Work): Promise<void> {
  const settings = readSettings(context, options);
  const { source, webhook } = receivingSource(settings);
  const { manage } = source.profile.webhooks;
  if (manage === null) {
    throw new ConfigError('usage', `the profile of ${source.name} does not say how its service manages webhooks`, {
      hint: 'declare webhooks.manage in the profile, or set the webhook up at the service by hand',
    });
  }
  const url = addressOf(options.url ?? webhook.public_url, source.name);
  const level = options.logLevel ?? settings.log.level;
  const log = createLog({ level, secrets: context.secrets, destination: context.stderr });
  const { clock, secrets, signal } = context;
  const { reader } = await findWarehouse(source, clock);
  try {
    const probe = await openProbe({ source, clock, secrets, log }, reader);
    await whileOpen(probe, async ({ client, listing }) => {
      const secret = secretOf(webhook, clock.now());
      const managing = { client, listing, manage, url, signal, source, secret };
      const report = await work(managing, options, context);
      if (options.json === true) print(context, report);
    });
  } finally {
    await reader?.close();
  }
  context.exit(EXIT_CODES.ok);
}

function addressOf(text: string | undefined, source: string): URL {
  const url = URL.parse(text ?? '');
  if (url !== null && /^https?:$/.test(url.protocol)) return url;
  const what =
    text === undefined ? `source ${source} has no public address` : `--url must be an http(s) URL, not "${text}"`;
  throw new ConfigError('usage', what, {
    hint: `name the address at which the service sees \`serve\` with --url, or set webhook.public_url: https://…/webhooks/${source}`,
  });
}

/** A token that only answers questions signs nothing. */
function secretOf({ secrets }: WebhookSettings, now: number): string | null {
  return secrets.find(({ id, until = Infinity }) => id !== 'verify_token' && until > now)?.value ?? null;
}

async function registerAll(managing: Managing, options: ManageOptions, context: CliContext): Promise<object> {
  const { manage, secret, source } = managing;
  if (secret === null && JSON.stringify(manage.create).includes('{secret}')) {
    throw new ConfigError('usage', `no secret of source ${source.name} is valid any more`);
  }
  const wanted = wantedWebhooks(manage, await listWebhooks(managing));
  const done: Managed[] = [];
  for (const each of wanted) {
    const { event, there: id, isThere } = each;
    const tell = teller(managing, options, context);
    if (!isThere)
      tell(
        each,
        `${options.dryRun === true ? 'would ask' : 'asks'} for it: ${manage.create.method} ${manage.create.path}`,
      );
    const state = isThere ? 'there' : options.dryRun === true ? 'missing' : await makeWebhook(managing, each, secret);
    if (options.dryRun !== true || isThere) tell(each, state === 'made' ? 'made' : 'is there already');
    done.push({ id, event, state });
  }
  return reportOf(managing, done);
}

/** Prints a line about one webhook, unless everything is printed as JSON in the end. */
function teller({ url, manage }: Managing, { json }: ManageOptions, context: CliContext) {
  return ({ event }: Pick<WantedWebhook, 'event'>, what: string): void => {
    const all = manage.events.length === 0 ? 'all events' : manage.events.join(', ');
    if (json !== true) print(context, visibleText(`${shownAddress(url.href)}  ${event ?? all}  ${what}`));
  };
}

async function listAll(managing: Managing, options: ManageOptions, context: CliContext): Promise<object> {
  const there = (await listWebhooks(managing)) ?? noList(managing);
  const webhooks = there.map((each) => Object.assign({}, each, { address: listedAddress(each) }));
  const rows = webhooks.map(({ id, address, event, isOurs }) =>
    [isOurs ? 'ours' : 'other', id ?? '–', address, event ?? ''].map(visibleText),
  );
  if (options.json !== true) print(context, rows.length === 0 ? 'no webhooks' : alignedLines(rows).join('\n'));
  const { source, url } = managing;
  return { source: source.name, address: shownAddress(url.href), webhooks };
}

async function removeAll(managing: Managing, options: ManageOptions, context: CliContext): Promise<object> {
  const remove = removal(managing);
  const there = (await listWebhooks(managing)) ?? noList(managing);
  const ours = there.filter(({ isOurs }) => isOurs);
  const tell = teller(managing, options, context);
  const done: Managed[] = [];
  for (const { id, event } of ours) {
    const state = await removed(managing, remove, id, options);
    tell({ event }, `${id ?? 'without an id'}: ${state}`);
    done.push({ id, event, state });
  }
  if (ours.length === 0 && options.json !== true)
    print(context, `no webhook leads to ${shownAddress(managing.url.href)}`);
  return reportOf(managing, done);
}

async function removed(
  managing: Managing,
  remove: NonNullable<WebhookManagement['remove']>,
  id: string | null,
  { dryRun }: ManageOptions,
): Promise<string> {
  if (id === null) return 'cannot be removed';
  return dryRun === true ? `would be removed: ${remove.method} ${remove.path}` : removeWebhook(managing, remove, id);
}

function removal({ manage: { remove }, source }: Managing): NonNullable<WebhookManagement['remove']> {
  if (remove !== null) return remove;
  throw new ConfigError('usage', `the profile of ${source.name} does not say how a webhook is removed`, {
    hint: 'declare webhooks.manage.remove in the profile, or remove it at the service by hand',
  });
}

function noList({ source }: Managing): ListedWebhook[] {
  throw new ConfigError('usage', `the profile of ${source.name} does not say how webhooks are listed`, {
    hint: 'declare webhooks.manage.list in the profile, or look at the service',
  });
}

function reportOf({ source, url }: Managing, webhooks: readonly Managed[]): object {
  return { source: source.name, address: shownAddress(url.href), webhooks };
}

/** Without the query, in which a secret may stand. */
function shownAddress(text: string): string {
  return text.replace(/[?#].*$/s, '');
}

/** Of what leads elsewhere only the origin: the path of some receivers is their secret. */
function listedAddress({ address, isOurs }: ListedWebhook): string {
  const origin = URL.parse(address)?.origin ?? '';
  return isOurs ? shownAddress(address) : `${origin}/…`;
}
