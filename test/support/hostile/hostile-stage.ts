import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import { randomFrom, type Random } from '../random.ts';
import { drawRecords, honestPage, PAGE_STYLES, type HonestRecord, type PageStyleName } from './honest.ts';
import { HostileService } from './hostile-service.ts';

const SOURCES = ['one', 'two', 'three'] as const;
/** Short, so that a service that keeps its clients waiting costs seconds; and what is usual. */
const IMPATIENT = { headers_timeout: '500ms', timeout: '900ms', attempts: 2, max_body: '6MiB' };
const PATIENT = { headers_timeout: '30s', timeout: '2m', attempts: 4 };

/** A source, the service behind it, and what of it must never be written. */
export interface HostileSource {
  name: string;
  service: HostileService;
  records: readonly HonestRecord[];
  style: PageStyleName;
  isOauth: boolean;
  key: string;
  /** With which its webhooks come. */
  hook: string;
}

/** Services drawn from a seed, and the settings that lead to them; all gone when the test is over. */
export interface HostileStage {
  seed: number;
  random: Random;
  folder: string;
  sources: readonly HostileSource[];
  /** Milliseconds by which the service's clocks and the command's are ahead of this machine's. */
  aheadMs: number;
  /** Turns all services, and the settings with them. */
  setHonest(isHonest: boolean): void;
}

export async function hostileStage(seed: number): Promise<HostileStage> {
  const random = randomFrom(seed);
  const folder = mkdtempSync(path.join(tmpdir(), 'content-sync-hostile-'));
  const state = { aheadMs: 0 };
  const sources: HostileSource[] = [];
  for (const [at, name] of SOURCES.entries()) {
    const [style, records, isOauth] = [random.pick(PAGE_STYLES), drawRecords(random), random.chance(0.4)];
    const key = `key-${name}-${seed}-canary+/x=`;
    const hook = `hook-${name}-${seed}-canary`;
    const foreign = (): string => sources[(at + 1) % SOURCES.length]?.service.url ?? 'http://127.0.0.1:1';
    const options = { name, seed: seed * 10 + at, records, style, aheadMs: () => state.aheadMs, foreign };
    const service = new HostileService(options, key);
    await service.start();
    sources.push({ name, service, records, style, isOauth, key, hook });
  }
  onTestFinished(async () => {
    await Promise.all(sources.map(({ service }) => service.close()));
    rmSync(folder, { recursive: true, force: true });
  });
  const setHonest = (isHonest: boolean): void => {
    for (const { service } of sources) service.isHonest = isHonest;
    writeSettings(folder, sources, isHonest ? PATIENT : IMPATIENT);
  };
  return Object.assign(state, { seed, random, folder, sources, setHonest });
}

function writeSettings(folder: string, sources: readonly HostileSource[], http: object): void {
  const written = sources.map(({ name, service, style, isOauth, key, hook }) => {
    writeFileSync(path.join(folder, `${name}.yaml`), JSON.stringify(profileFor(style, http)));
    const auth = isOauth
      ? { type: 'oauth', client_id: `client-${name}`, client_secret: key }
      : { type: 'api_key', key };
    const rest = { max_wait: '1500ms', deletes: ALL_DELETES, webhook: { secrets: [hook] } };
    return [name, { base_url: service.url, auth, profile: `./${name}.yaml`, ...rest }];
  });
  const config = {
    warehouse: `sqlite:${path.join(folder, '{source}.db')}`,
    log: { level: 'debug' },
    sources: Object.fromEntries(written),
  };
  // JSON is YAML.
  writeFileSync(path.join(folder, 'content-sync.yaml'), JSON.stringify(config));
}

/** What a hostile service made up is gone when it is honest: nobody is asked. */
const ALL_DELETES = { max_rows: 100_000, max_part: 1 };

function profileFor(style: PageStyleName, http: object): object {
  const content = {
    path: '/content',
    page: honestPage(style),
    incremental: { param: 'updated_since' },
    item: '/content/{id}',
    history: 'all',
  };
  return { version_prefix: '/v1', http, webhooks: { signature: 'bearer' }, resources: { content } };
}
