/** The schema of the config file (`content-sync.yaml`), and the types of the settings after all defaults are filled in. */
import { createHash } from 'node:crypto';
import { accessSync, constants } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { z } from 'zod';
import { LOG_LEVELS, type LogLevel } from '../model/vocabulary.ts';
import { alertsSchema, type AlertsSettings } from './alerts-schema.ts';
import { cronExpression, timezone } from './cron.ts';
import type { Fault } from './file/yaml-file.ts';
import { type Network, networkSchema } from './network.ts';
import { authSecretsSchema, type AuthSettings } from './profile/auth.ts';
import { byteSize, documented, duration, timeSpan } from './profile/basic-fields.ts';
import { filesSchema, type FilesSettings } from './profile/file-fields.ts';
import type { Profile } from './profile/profile.ts';
import type { WebhookSecret } from './profile/signature-secret.ts';
import { warehouseFolder, warehouseSchema } from './warehouse-address.ts';

const controlSchema = documented(z.string().min(1).nullable().optional())(
  'Socket for commands to a running `serve`; by default beside the warehouse, else beside the config; null for none',
  ['/run/content-sync/control.sock'],
);

const serveSchema = z
  .strictObject({
    host: z.string().min(1).default('127.0.0.1').meta({ description: 'Address that `serve` listens on' }),
    port: z.int().min(0).max(65_535).default(8080),
    hosts: documented(
      z.array(z.string().regex(/^[A-Za-z0-9.-]+$/, 'expected a name such as status.example.com')).default([]),
    )('Public names under which a page without `serve.auth` is served'),
    public_url: documented(
      z.url({ protocol: /^https?$/, error: 'expected an http(s) URL such as https://sync.example.com' }).optional(),
    )('Address of the page, for links in alerts', ['https://sync.example.com']),
    auth: z
      .strictObject({
        user: z.string().regex(/^[^:]+$/, 'expected a name without a colon'),
        password: z.string().min(1),
      })
      .optional()
      .meta({ description: 'Basic authentication for the status page and the metrics' }),
  })
  .meta({ description: 'The status page, the metrics and the webhook receiver of `serve`' });

const workerSchema = z
  .strictObject({
    host: z.string().min(1).default('127.0.0.1').meta({ description: 'Address that `worker` listens on' }),
    port: documented(z.int().min(0).max(65_535).nullable().default(8081))(
      'Its port; 0 picks a free one, null listens nowhere',
    ),
  })
  .meta({ description: 'Health and metrics of `worker`; hosts and auth are those of serve' });

const secretText = z.string().min(1);

/** A text, or a map if the secret has an id or an expiry; parsed to `WebhookSecret`. */
const webhookSecretSchema = z
  .union([
    secretText,
    z.strictObject({
      value: secretText,
      id: z.string().min(1).optional().meta({ description: 'Name by which a delivery chooses it' }),
      until: z.iso.datetime({ offset: true }).optional().meta({ description: 'Not accepted after this time' }),
    }),
  ])
  .transform((given): WebhookSecret => {
    if (typeof given === 'string') return { value: given };
    return { ...given, until: given.until === undefined ? undefined : Date.parse(given.until) };
  });

export const webhookSchema = z
  .strictObject({
    secrets: documented(z.array(webhookSecretSchema).min(1))(
      'Secrets that sign deliveries, each a text or a map; all are accepted',
    ),
    public_url: documented(z.url({ protocol: /^https?$/ }).optional())(
      'Public address of the webhook, for schemes that sign it',
    ),
    max_body: byteSize.prefault('1MiB').meta({ description: 'Largest delivery' }),
    keep: documented(duration.prefault('7d'))(
      'How long a finished delivery is kept and recognised; a dead one four times as long',
    ),
    attempts: documented(z.int().min(1).max(50).default(8))('Fetches of a record before its delivery is dead'),
    max_waiting: documented(z.int().min(1).default(1_000_000))(
      'Deliveries that may wait; further ones are answered with 503 and Retry-After',
    ),
    max_waiting_size: byteSize.prefault('1024MiB').meta({ description: 'Size of all deliveries that may wait' }),
  })
  .meta({ description: 'Receive webhooks at /webhooks/<source>; without it there is no such address' });

const hashKey = documented(z.string().min(16, 'expected a secret of at least 16 characters').optional())(
  'Secret for fields with `hash: true`; `privacy_key` by default',
);

const privacyKey = documented(z.string().min(16, 'expected a secret of at least 16 characters').optional())(
  'Secret of `forget`, and default of `hash_key`. Keep it as long as the warehouse: after an erasure, runs need it',
  ['${CONTENT_PRIVACY_KEY}'],
);

const FILE_MODE_EXPECTED = 'expected 0600, 0640 (its group may read) or 0644 (everybody may)';
const FILE_MODES = [0o600, 0o640, 0o644] as const;

/** Rights of written files, as `chmod` writes them; parsed to the mode as a number. */
const fileMode = documented(
  z.union([z.int(), z.string()], FILE_MODE_EXPECTED).transform((given, context): number => {
    const mode = FILE_MODES.find((each) => modeNotations(each).includes(String(given)));
    if (mode === undefined) context.addIssue({ code: 'custom', message: FILE_MODE_EXPECTED });
    return mode ?? FILE_MODES[0];
  }),
)('Rights of created files: 0600, 0640 or 0644; folders match');

/** Returns the notations of a mode: YAML reads `0640` as the number 640, and `0o640` as 416. */
function modeNotations(mode: number): string[] {
  const digits = mode.toString(8);
  return [digits, `0${digits}`, `0o${digits}`, String(mode)];
}

/** Returns the umask for files with this mode, and for folders that everybody who may read the files can enter. */
export function umaskOf(mode: number): number {
  const folder = mode | ((mode & 0o444) >> 2);
  return ~folder & 0o777;
}

const URL_EXPECTED =
  'expected an http(s) URL without user name, password, query and fragment, such as https://cms.example.com';

const baseUrlSchema = z
  .url({ protocol: /^https?$/, error: URL_EXPECTED })
  .refine(isPlainUrl, URL_EXPECTED)
  .transform((url) => url.replace(/\/+$/, ''))
  .meta({ description: 'Address of the content service, without the version prefix' });

const rateSchema = z.strictObject({
  requests_per_second: documented(z.number().positive().max(10_000).optional())(
    'Maximum; headers of the service can lower it',
  ),
  share: z.number().gt(0).max(1).default(0.9).meta({ description: 'Part of the limit to use; others get the rest' }),
});

const ADDRESS_EXPECTED = 'expected an http(s) URL such as https://hc-ping.com/<uuid>';
const pingUrl = z.url({ protocol: /^https?$/, error: ADDRESS_EXPECTED });

/** A schedule's own fields; null turns that kind of run off. */
const timesSchema = z.strictObject({
  incremental: cronExpression.nullable().optional(),
  full: cronExpression.nullable().optional(),
});

const scheduleSchema = z
  .strictObject({
    incremental: documented(cronExpression.nullable().default('*/10 * * * *'))('When to sync changes; null for never'),
    full: documented(cronExpression.nullable().default('17 3 * * *'))(
      'When to scan everything, which finds deletes; null for never',
    ),
    timezone: timezone.default('UTC').meta({ description: 'IANA time zone of these times' }),
    jitter: duration.prefault('30s').meta({ description: 'Maximum delay of a start, fixed per resource' }),
    resources: documented(z.record(z.string(), timesSchema).default({}))('Other times for some resources, by name'),
  })
  .meta({ description: 'When `serve` and `sync --due` do what' });

const deletesSchema = z.strictObject({
  max_rows: documented(z.int().min(0).default(500))('More deletes than this at once, or in 24 h, are held'),
  max_part: documented(z.number().min(0).max(1).default(0.1))(
    'Deletes of more than this part of the live rows are held',
  ),
  settle: documented(duration.nullable().default(null))(
    'How late a listing can show a record; younger rows are not deleted by scans alone. Null: the `lookback` of the filter, or 10m',
  ),
  keep_days: documented(z.int().min(1).nullable().default(null))(
    'Days after which deleted rows and their versions are removed for good; null for never',
  ),
});

const pingSchema = z
  .strictObject({ start: pingUrl.optional(), success: pingUrl.optional(), failure: pingUrl.optional() })
  .meta({ description: 'URLs requested when a run begins and ends; {resource} is filled in' });

const sourceSchema = z.strictObject({
  base_url: baseUrlSchema,
  auth: authSecretsSchema.optional().meta({ description: 'Secrets for the `auth` of the profile' }),
  allow_insecure: documented(z.boolean().default(false))('Allows the credential to go by plain http to other machines'),
  profile: documented(z.string().min(1))('Name of a profile that comes with content-sync, or the path of your own'),
  rate: rateSchema.prefault({}),
  http: documented(networkSchema.prefault({}))('The way to the service: proxy, authorities, client certificate'),
  max_wait: duration.prefault('15m').meta({ description: 'A longer wait than this defers the resource (exit code 4)' }),
  resources: documented(z.array(z.string().min(1)).min(1).optional())(
    'Resources of the profile to sync; all by default',
  ),
  hash_key: hashKey,
  schedule: scheduleSchema.prefault({}),
  webhook: webhookSchema.optional(),
  deletes: deletesSchema.prefault({}),
  ping: pingSchema.prefault({}),
  files: filesSchema.prefault({}),
});

export const SOURCE_NAME = /^[a-z][a-z0-9_-]{0,40}$/;

const sourcesSchema = z
  .record(z.string().regex(SOURCE_NAME, 'expected a lower-case name such as blog'), sourceSchema)
  .meta({ description: 'Content service accounts by name; each has its own file or schema in the warehouse' });

const folderSchema = documented(z.string().min(1))(
  'A folder, relative to this file: each <name>.yaml in it is the source of that name',
);

/** The config file without its sources, which are checked one by one; unknown keys are refused everywhere. */
export const settingsSchema = z.strictObject({
  warehouse: warehouseSchema,
  sources: z.union([z.record(z.string(), z.unknown()), folderSchema], 'expected a map, or the path of a folder'),
  privacy_key: privacyKey,
  file_mode: fileMode.prefault('0600'),
  serve: serveSchema.prefault({}),
  control: controlSchema,
  worker: workerSchema.prefault({}),
  alerts: alertsSchema.prefault({}),
  log: z.strictObject({ level: z.enum(LOG_LEVELS).default('info') }).prefault({}),
  keep_runs: documented(timeSpan.prefault('90d'))('How long runs are stored; the last one of a resource always is'),
});

export const namedSourceSchema = z.strictObject({ sources: sourcesSchema });

/** The settings of one source as in the file, with defaults. */
export type SourceFields = z.output<typeof sourceSchema>;
export type ScheduleSettings = z.output<typeof scheduleSchema>;
export type WebhookSettings = z.output<typeof webhookSchema>;
export type PingSettings = z.output<typeof pingSchema>;
export type ServeSettings = z.output<typeof serveSchema>;
type WorkerSettings = z.output<typeof workerSchema>;

/** The complete settings of one source. `base_url` has no trailing slash; durations are milliseconds. */
export interface SourceSettings extends Readonly<
  Omit<SourceFields, 'auth' | 'files' | 'http' | 'profile' | 'resources' | 'webhook'>
> {
  readonly name: string;
  /** Type `none` if the settings have no `auth`. */
  readonly auth: AuthSettings;
  readonly network: Network;
  readonly profile: Profile;
  /** Names of the profile's resources to sync, in the profile's order. */
  readonly resources: readonly string[];
  readonly files: FilesSettings;
  /** Null if no webhooks are received. */
  readonly webhook: WebhookSettings | null;
  /** Milliseconds for which ended runs are stored. */
  readonly keep_runs: number;
  /** Address of its database: `sqlite:` and an absolute path, or `postgres://…?schema=…`, maybe with a password. */
  readonly warehouse: string;
  /** Key of the hashes of erased records. */
  readonly privacy_key?: string | undefined;
}

/** A source whose file has faults; the others run without it. */
export interface RefusedSource {
  readonly name: string;
  /** Faults of its file and of its profile. */
  readonly faults: readonly Fault[];
}

/** All settings, read once and deeply frozen. */
export interface Settings {
  /** Absolute path of the config file. */
  readonly path: string;
  readonly sources: Readonly<Record<string, SourceSettings>>;
  /** Sources with faults: reported at the start, on the page and by the exit code. */
  readonly refused: readonly RefusedSource[];
  /** Mode of created files, such as `0o640`. */
  readonly file_mode: number;
  /** Config files with secrets that other users may read, as shown to the user. */
  readonly exposed: readonly string[];
  readonly serve: ServeSettings;
  /** Absolute path of the control socket; null for none. */
  readonly control: string | null;
  readonly worker: WorkerSettings;
  readonly alerts: AlertsSettings;
  readonly log: { readonly level: LogLevel };
  /** All credentials in the settings: texts that must not be logged or printed. */
  readonly secrets: readonly string[];
}

function isPlainUrl(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && !/[@?#]/.test(text) && url.hostname !== '';
}

/** Some systems truncate longer paths of sockets, at 104 bytes including the terminator. */
const MAX_SOCKET_PATH_BYTES = 100;

interface ControlPathInput {
  /** The setting. */
  control: string | null | undefined;
  warehouse: string;
  /** Absolute path of the config file. */
  config: string;
  cwd: string;
  env: Readonly<Record<string, string | undefined>>;
}

/**
 * Returns the absolute path of the control socket, the same for `serve` and for every command with this config; null for
 * none. Its name contains a hash of the config path, because configs may share a folder. It is never in a folder in which
 * every user can create files, where another user could impersonate `serve`.
 */
export function controlPath({ control, warehouse, config, cwd, env }: ControlPathInput): string | null {
  // YAML 1.1 has `off` as a word for false, so users write it for null.
  if (control === null || control === 'off') return null;
  if (control !== undefined) return resolve(cwd, control);
  const name = `content-sync-${createHash('sha256').update(config).digest('hex').slice(0, 16)}.sock`;
  const folder = warehouseFolder(warehouse, cwd);
  const runtime = env['XDG_RUNTIME_DIR'] ?? '';
  const paths = [
    ...(folder === null ? [] : [join(folder, name)]),
    ...(isWritable(dirname(config)) ? [join(dirname(config), name)] : []),
    ...(runtime === '' ? [] : [join(runtime, name)]),
  ];
  return paths.find((path) => Buffer.byteLength(path) <= MAX_SOCKET_PATH_BYTES) ?? null;
}

function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
