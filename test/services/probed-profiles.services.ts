import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type Database from 'better-sqlite3';
import { describe, expect, it, onTestFinished } from 'vitest';
import { runCommand } from '../support/command.ts';
import { SQLITE } from '../support/databases.ts';
import { directus } from './directus.ts';
import { ghost } from './ghost.ts';
import { liveStage, startService, whyNoServices } from './live-stage.ts';
import type { LiveService, TrueRecord } from './live-service.ts';
import { strapi } from './strapi.ts';
import { wordpress } from './wordpress.ts';

const why = whyNoServices();

interface ProbedService {
  name: string;
  open: () => LiveService;
  /** Below the address of the service. */
  api: string;
  paths: readonly string[];
  /** Resources by the name that probe gives them, where the tests have another one. */
  compared: Readonly<Record<string, string>>;
}

const SERVICES: readonly ProbedService[] = [
  {
    name: 'ghost',
    open: () => ghost('content'),
    api: '/ghost/api/content',
    paths: ['/posts', '/authors'],
    compared: { posts: 'posts', authors: 'authors' },
  },
  {
    name: 'strapi',
    open: strapi,
    api: '/api',
    paths: ['/article-stats', '/tags'],
    compared: { article_stats: 'article_stats', tags: 'tags' },
  },
  {
    name: 'directus',
    open: directus,
    api: '',
    paths: ['/items/articles', '/items/article_stats', '/files'],
    compared: { articles: 'articles', article_stats: 'article_stats', files: 'files' },
  },
  {
    name: 'wordpress',
    open: wordpress,
    api: '/wp-json/wp/v2',
    paths: ['/posts', '/tags', '/media'],
    compared: { posts: 'posts', tags: 'tags', media: 'media' },
  },
];

describe.skipIf(why !== null).each(SERVICES)(
  'a profile that probe found for $name',
  ({ name, open, api, paths, compared }) => {
    it('gives the same copy as the service holds', async () => {
      startService(name);
      const service = open();
      const folder = mkdtempSync(path.join(tmpdir(), 'content-sync-probed-'));
      onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
      const { type: _, username, ...secrets } = service.auth;
      const [secret = ''] = Object.values(secrets).map(String);
      const user = typeof username === 'string' ? ['--user', username] : [];
      const listings = paths.flatMap((listing) => ['--path', listing]);
      const args = [service.baseUrl + api, ...listings, '--credential-env', 'SECRET', ...user, '--out', 'probed.yaml'];
      const probed = await runCommand(['probe', ...args], folder, { SECRET: secret });
      process.stderr.write(`${name}: ${probed.stderr}`);
      expect([0, 3]).toContain(probed.code);
      const profile = path.join(folder, 'probed.yaml');
      const stage = await liveStage({ ...service, baseUrl: service.baseUrl + api, profile, resources: {} }, SQLITE);
      const report = await stage.run('backfill');
      const truths: Record<string, TrueRecord[]> = {};
      for (const known of Object.values(compared)) truths[known] = await service.truth(known);
      for (const [found, known] of Object.entries(compared)) {
        expect(await stage.read((db) => plainDifferences(db, found, truths[known] ?? []))).toEqual([]);
      }
      expect(report.status).toBe('ok');
    });
  },
);

/** Records that are on one side only, and fields without parts that differ: a plain listing shows fewer of the others. */
function plainDifferences(db: Database.Database, resource: string, truth: readonly TrueRecord[]): string[] {
  const open = db
    .prepare<[string], { id: string; body: string }>(
      "SELECT id, body FROM _sync_versions WHERE resource = ? AND valid_to IS NULL AND op = 'upsert'",
    )
    .all(resource);
  const copied = new Map(open.map(({ id, body }): [string, TrueRecord['record']] => [id, JSON.parse(body)]));
  const known = new Map(truth.map(({ id, record }) => [id, record]));
  const strays = [...copied.keys()].filter((id) => !known.has(id)).map((id) => `${resource} ${id}: too many`);
  const others = [...known].flatMap(([id, record]) => {
    const body = copied.get(id);
    if (body === undefined) return [`${resource} ${id}: missing`];
    return Object.entries(record).flatMap(([field, value]) => {
      const isPlain = typeof value !== 'object' && Object.hasOwn(body, field) && typeof body[field] !== 'object';
      return isPlain && body[field] !== value ? [`${resource} ${id} ${field}: ${JSON.stringify(body[field])}`] : [];
    });
  });
  return [...strays, ...others];
}
