import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { runCommand } from '../support/command.ts';
import { journey } from '../support/journey.ts';

const SECRET = 'sk-live-4f9c2e7b81';

/** A config of two faults; lines and columns are those of the wrong values, and of the unknown key. */
const WRONG = `warehouse: sqlite:data/{source}.db
sources:
  blog:
    base_url: ftp://cms.example.com
    auth: { type: api_key, key: "\${CONTENT_API_KEY}" }
    profile: content-service
    rate: { shar: 0.5 }
`;

describe('settings that cannot be used', () => {
  it.each(['check', 'backfill', 'sync', 'status'])(
    '%s says where it looked for the config, exit code 2',
    async (name) => {
      const blog = await journey();
      const ended = await runCommand([name], blog.folder);
      expect(ended).toMatchObject({ code: 2, stdout: '' });
      expect(ended.stderr).toContain('config/content-sync.yaml: expected a config file, got none');
      expect(ended.stderr).toContain('content-sync init writes one');
    },
  );

  it('takes the config of CONTENT_SYNC_CONFIG, and --config before it', async () => {
    const blog = await journey();
    const env = { CONTENT_SYNC_CONFIG: 'other.yaml' };
    expect((await runCommand(['status'], blog.folder, env)).stderr).toContain('other.yaml: expected a config file');
    await (await blog.open()).close();
    expect((await runCommand(['status', '--config', blog.config], blog.folder, env)).code).toBe(0);
    expect((await runCommand(['status'], blog.folder, { CONTENT_SYNC_CONFIG: blog.config })).code).toBe(0);
  });

  it('are all told at once, with file, line and column, before any request and without the secret', async () => {
    const blog = await journey();
    writeFileSync(path.join(blog.folder, 'wrong.yaml'), WRONG);
    const ended = await runCommand(['sync', '-c', 'wrong.yaml'], blog.folder, { CONTENT_API_KEY: SECRET });
    expect(ended).toMatchObject({ code: 2, stdout: '' });
    expect(ended.stderr).toMatch(/wrong\.yaml:4:15 .*base_url: expected an http\(s\) URL/);
    expect(ended.stderr).toMatch(/wrong\.yaml:7:13 .*shar/);
    expect(ended.stderr).not.toContain(SECRET);
    expect(blog.sandbox.requests.total).toBe(0);
  });

  it.each([
    [['sync', 'contents'], 'source blog has no resource "contents"', 'it has content, images, analytics'],
    [['pause', 'blog'], 'source blog has no resource "blog"', 'a whole source is named by --source blog'],
    [['sync', '--source', 'blgo'], 'the config has no source "blgo"', 'it has blog'],
  ])('%j is refused before any request, and says what there is', async (args, message, hint) => {
    const blog = await journey();
    const ended = await blog.command(...args);
    expect(ended).toMatchObject({ code: 2, stdout: '' });
    expect(ended.stderr).toContain(message);
    expect(ended.stderr).toContain(hint);
    expect(blog.sandbox.requests.total).toBe(0);
  });

  it('names a resource that only one of two sources has before any request to either', async () => {
    const blog = await journey();
    const source = {
      base_url: blog.sandbox.url,
      auth: { type: 'api_key', key: blog.sandbox.apiKey },
      profile: 'content-service',
    };
    const sources = { one: source, two: { ...source, resources: ['images'] } };
    writeFileSync(path.join(blog.folder, 'two.yaml'), JSON.stringify({ warehouse: 'sqlite:{source}.db', sources }));
    const ended = await runCommand(['sync', 'content', '-c', 'two.yaml'], blog.folder);
    expect([ended.code, blog.sandbox.requests.total]).toEqual([2, 0]);
    expect(ended.stderr).toContain('source two has no resource "content"');
  });
});

describe('a secret', () => {
  it('is printed nowhere, even where the service says it back in an error', async () => {
    const body = JSON.stringify({ detail: `The key ${SECRET} (Bearer ${SECRET}) is unknown.` });
    const fault = { fault: 'status', status: 403, body } as const;
    const blog = await journey({ sandbox: { apiKey: SECRET, generate: { content: 3 }, fault: [fault] } });
    const [run, json, check, status] = [
      await blog.command('sync', '--log-level', 'trace'),
      await blog.command('sync', '--json'),
      await blog.command('check'),
      await blog.command('status'),
    ];
    expect(run.code).toBe(1);
    const stored = await blog.read((db) => JSON.stringify(db.prepare('SELECT * FROM _sync_runs').all()));
    const written = [run, json, check, status].flatMap(({ stdout, stderr }) => [stdout, stderr]).join('\n') + stored;
    expect(written).toContain('The key ***');
    expect(written).not.toContain(SECRET);
    expect(written).not.toContain(Buffer.from(SECRET).toString('base64').slice(0, 12));
  });
});
