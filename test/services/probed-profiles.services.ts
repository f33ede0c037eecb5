import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { runCommand } from '../support/command.ts';
import { SQLITE } from '../support/databases.ts';
import { directus } from './directus.ts';
import { ghost } from './ghost.ts';
import { startService, whyNoServices } from './lab.ts';
import { liveStage } from './live-stage.ts';
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
    paths: ['/pages', '/authors'],
    compared: { pages: 'pages', authors: 'authors' },
  },
  {
    name: 'strapi',
    open: strapi,
    api: '/api',
    paths: ['/authors', '/tags'],
    compared: { authors: 'authors', tags: 'tags' },
  },
  {
    name: 'directus',
    open: directus,
    api: '',
    paths: ['/items/article_stats', '/items/tags', '/files'],
    compared: { article_stats: 'article_stats', tags: 'tags', files: 'files' },
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
      const truth: Record<string, TrueRecord[]> = {};
      for (const [found, known] of Object.entries(compared)) truth[found] = await service.truth(known);
      expect(await stage.differences(truth)).toEqual([]);
      expect(report.status).toBe('ok');
    });
  },
);
