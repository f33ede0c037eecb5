import { z } from 'zod';
import { LOG_LEVELS, type LogLevel } from '../model/words.ts';
import type { AuthSettings } from '../source/auth.ts';
import { authSchema } from '../source/auth.ts';
import { duration } from '../source/measures.ts';
import type { Profile } from '../source/profile.ts';

const URL_EXPECTED =
  'expected an http(s) URL without user name, password, query and fragment, such as https://cms.example.com';

const baseUrlSchema = z
  .url({ protocol: /^https?$/, error: URL_EXPECTED })
  .refine(isPlainUrl, URL_EXPECTED)
  .transform((url) => url.replace(/\/+$/, ''))
  .meta({ description: 'Address of the content service, without the version prefix' });

const rateSchema = z.strictObject({
  requests_per_second: z
    .number()
    .positive()
    .max(10_000)
    .optional()
    .meta({ description: 'Never more than this; what the service says in its headers may lower it' }),
  share: z.number().gt(0).max(1).default(0.9).meta({ description: 'Part of the limit to use; others get the rest' }),
});

const sourceSchema = z.strictObject({
  base_url: baseUrlSchema,
  auth: authSchema,
  profile: z
    .string()
    .min(1)
    .meta({ description: 'Name of a profile that comes with content-sync, or the path of your own' }),
  rate: rateSchema.prefault({}),
  max_wait: duration
    .prefault('15m')
    .meta({ description: 'Longest wait that the service may ask for before a resource is put off (exit code 4)' }),
  resources: z
    .array(z.string().min(1))
    .min(1)
    .optional()
    .meta({ description: 'Resources of the profile to sync; all of them where absent' }),
});

/** The config file as it is written (`z.input`); unknown keys are refused everywhere. */
export const settingsSchema = z.strictObject({
  warehouse: z
    .string()
    .regex(
      /^sqlite:(?!\/\/|:memory:)([^{}]|\{source\})+$/,
      'expected sqlite:<path>, where {source} may stand in the path',
    )
    .meta({ description: 'sqlite:<path>; {source} stands for the name of the source, one file each' }),
  sources: z
    .record(z.string().regex(/^[a-z][a-z0-9_-]{0,40}$/, 'expected a lower-case name such as blog'), sourceSchema)
    .refine((sources) => Object.keys(sources).length > 0, 'expected at least one source')
    .meta({ description: 'Content service accounts by name; each has its own file in the warehouse' }),
  log: z.strictObject({ level: z.enum(LOG_LEVELS).default('info') }).prefault({}),
});

export type SettingsFile = z.output<typeof settingsSchema>;

/** One content service account, ready to be used. */
export interface SourceSettings {
  readonly name: string;
  /** Without a slash at the end. */
  readonly base_url: string;
  readonly auth: AuthSettings;
  readonly profile: Profile;
  readonly rate: { readonly requests_per_second?: number | undefined; readonly share: number };
  /** Milliseconds. */
  readonly max_wait: number;
  /** Names of the profile's resources to sync, in the profile's order. */
  readonly resources: readonly string[];
  /** Where this source's rows go: `sqlite:` and an absolute path. */
  readonly warehouse: string;
}

/** Everything that was set, read once, whole and deeply frozen. */
export interface Settings {
  /** Absolute path of the config file. */
  readonly path: string;
  readonly sources: Readonly<Record<string, SourceSettings>>;
  readonly log: { readonly level: LogLevel };
  /** All credentials that the settings hold: texts that must not be logged or printed. */
  readonly secrets: readonly string[];
}

function isPlainUrl(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && !/[@?#]/.test(text) && url.hostname !== '';
}
