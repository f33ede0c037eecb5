import { writeFileSync } from 'node:fs';
import { stringify } from 'yaml';
import { openProbe, type Probe } from '../../app.ts';
import { snippet } from '../../http/body/safe-text.ts';
import { newMeter } from '../../http/client.ts';
import { SyncError } from '../../model/errors.ts';
import { escapePlaceholders } from '../../settings/file/interpolate.ts';
import { readPackagedProfile } from '../../settings/load-profile.ts';
import type { SourceSettings } from '../../settings/settings.ts';
import type { Section } from '../check.ts';
import type { CliContext } from '../command/context.ts';
import { print } from '../command/output.ts';
import { silentLog } from '../command/sources.ts';
import { whileOpen } from '../command/with-app.ts';
import { ownCollections, type OwnCollections } from './collections.ts';

type Resources = Record<string, Record<string, unknown>>;

/** A profile beside the config that adds an account's own collections to a shipped one. */
export class OwnProfile {
  readonly #path: string;
  readonly #base: string;
  #resources: Resources = {};
  #resourceNames: OwnCollections['resourceNames'] = {};

  constructor(path: string, base: string) {
    this.#path = path;
    this.#base = base;
  }

  /** Writes it as it is known so far. */
  write(): void {
    const webhooks =
      Object.keys(this.#resourceNames).length === 0 ? {} : { webhooks: { resource_names: this.#resourceNames } };
    const own = Object.keys(this.#resources).length === 0 ? {} : { resources: this.#resources };
    const text = stringify(escapePlaceholders({ extends: this.#base, ...webhooks, ...own }), { lineWidth: 0 });
    writeFileSync(
      this.#path,
      `# What this account has besides the profile ${this.#base}: see config/README.md.\n${text}`,
      { mode: 0o600 },
    );
  }

  /** Asks the service which collections there are. Says so if the credential may not see them. */
  async findCollections(context: CliContext, source: SourceSettings): Promise<void> {
    const place = readPackagedProfile(this.#base).about?.collections;
    if (place === undefined) return;
    const { clock, secrets } = context;
    const opened = await openProbe({ source, clock, secrets, log: silentLog(context) }, null);
    const answer = await whileOpen(opened, (probe) => askFor(probe, place.path, context.signal));
    const found = answer === null ? null : ownCollections(place, answer);
    if (found === null) {
      const example = stringify({ resources: { posts: place.resource } })
        .replaceAll('{name}', 'posts')
        .trimEnd();
      print(
        context,
        `Which collections there are this credential may not ask: name them in ${this.#path}, such as\n${example}`,
      );
      return;
    }
    if (found.refused.length > 0) {
      const names = found.refused.map((name) => snippet(name, 80)).join(', ');
      print(context, `Not copied, because of their names: ${names}. Add them to ${this.#path} if you need them.`);
    }
    this.#resources = { ...found.resources };
    this.#resourceNames = found.resourceNames;
    this.write();
  }

  /** Takes the filter for changes from resources whose filter `check` has shown not to work; true if there were any. */
  dropFilters(sections: readonly Section[]): boolean {
    const failed = sections.filter(
      ({ resource, findings }) =>
        Object.hasOwn(this.#resources, resource) &&
        findings.some(({ check, status }) => status !== 'ok' && ['filter', 'updated'].includes(check)),
    );
    for (const { resource } of failed) {
      this.#resources[resource] = { ...this.#resources[resource], updated: null, incremental: null };
    }
    if (failed.length > 0) this.write();
    return failed.length > 0;
  }
}

/** Null if the service refuses to say. */
async function askFor({ client, listing }: Probe, path: string, signal: AbortSignal) {
  const url = new URL(listing.baseUrl);
  url.pathname = url.pathname.replace(/\/+$/, '') + path;
  try {
    return (await client.get({ url, lane: 'incremental', meter: newMeter(), signal })).json;
  } catch (error) {
    if (error instanceof SyncError && error.code !== 'interrupted') return null;
    throw error;
  }
}
