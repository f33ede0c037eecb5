import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { spawn } from '@lydell/node-pty';
import { describe, expect, it, onTestFinished } from 'vitest';
import { MAIN, runCommand } from '../support/command.ts';

const KEY = '0123456789abcdef0123456789';

/** A service of no known kind, with a bearer token, numbered pages and a filter. */
const POSTS = Array.from({ length: 23 }, (_, at) => ({
  id: `p${at}`,
  title: `Post ${at}`,
  created_at: new Date(Date.UTC(2026, 0, 1 + at)).toISOString(),
  updated_at: new Date(Date.UTC(2026, 1, 1 + at)).toISOString(),
}));

function plainService({ headers }: Pick<IncomingMessage, 'headers'>, url: URL): { status: number; body: unknown } {
  if (headers.authorization !== `Bearer ${KEY}`) return { status: 401, body: { error: 'unauthorized' } };
  const [, collection = '', id] = url.pathname.split('/');
  if (collection !== 'posts') return { status: 404, body: { error: 'not found' } };
  if (id !== undefined) {
    const found = POSTS.find((post) => post.id === id);
    return found === undefined ? { status: 404, body: { error: 'not found' } } : { status: 200, body: found };
  }
  const since = url.searchParams.get('updated_since');
  const all = POSTS.filter((post) => since === null || Date.parse(post.updated_at) >= Date.parse(since));
  const [size, page] = [Number(url.searchParams.get('limit') ?? 10), Number(url.searchParams.get('page') ?? 1)];
  return { status: 200, body: { data: all.slice((page - 1) * size, page * size), total: all.length, page } };
}

/** Answers as Ghost's Content API does, as far as its signs, its collections and their pages go. */
function ghostLike(_incoming: Pick<IncomingMessage, 'headers'>, url: URL): { status: number; body: unknown } {
  const denied = { status: 403, body: { errors: [{ message: 'Authorization failed', type: 'NoPermissionError' }] } };
  const [, , , , resource = '', id = ''] = url.pathname.split('/');
  if (!url.pathname.startsWith('/ghost/api/content/')) return { status: 404, body: { errors: [{}] } };
  if (url.searchParams.get('key') !== KEY) return denied;
  const own = resource === 'posts' || resource === 'pages' ? POSTS : POSTS.slice(0, 3);
  const moment = /updated_at:>='([^']+)'/.exec(url.searchParams.get('filter') ?? '')?.[1];
  const since = moment === undefined ? 0 : Date.parse(`${moment.replace(' ', 'T')}Z`);
  const all = own.filter((post) => Date.parse(post.updated_at) >= since);
  if (id !== '') {
    const found = all.find((post) => post.id === id);
    if (found === undefined) return { status: 404, body: { errors: [{ type: 'NotFoundError' }] } };
    return { status: 200, body: { [resource]: [found] } };
  }
  const [limit, page] = [Number(url.searchParams.get('limit') ?? 15), Number(url.searchParams.get('page') ?? 1)];
  const pages = Math.max(1, Math.ceil(all.length / limit));
  const next = page < pages ? page + 1 : null;
  const pagination = { page, limit, pages, total: all.length, next, prev: null };
  return { status: 200, body: { [resource]: all.slice((page - 1) * limit, page * limit), meta: { pagination } } };
}

async function serve(answer: typeof plainService): Promise<string> {
  const server = createServer((incoming, outgoing) => {
    const { status, body } = answer(incoming, new URL(incoming.url ?? '/', 'http://service'));
    outgoing.writeHead(status, { 'content-type': 'application/json', 'content-version': 'v6.65' });
    outgoing.end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
}

function emptyFolder(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'content-sync-init-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

const rowsOf = async (folder: string, source: string): Promise<string> =>
  (await runCommand(['status', '--source', source], folder, { KEY })).stdout;

describe('content-sync init, without a terminal', () => {
  it('gets from an address and a variable to rows, for a service of a known kind', async () => {
    const [url, folder] = [await serve(ghostLike), emptyFolder()];
    const ended = await runCommand(['init', '--url', url, '--credential-env', 'KEY', '--source', 'blog'], folder, {
      KEY,
    });
    expect(ended.stdout).toMatch(
      /Ghost, Content API.*Written: config.content-sync\.yaml.*posts: ok, 23 records.*Next: content-sync serve/s,
    );
    expect(ended.stdout).not.toContain(KEY);
    expect(ended.code).toBe(0);
    const config = path.join(folder, 'config', 'content-sync.yaml');
    expect(readFileSync(config, 'utf8')).toMatch(/profile: ghost\n/);
    expect(readFileSync(config, 'utf8')).not.toContain(KEY);
    expect(statSync(config).mode & 0o077).toBe(0);
    const backfill = await runCommand(['backfill', '--json'], folder, { KEY });
    expect(JSON.parse(backfill.stdout)).toMatchObject({ status: 'ok' });
    expect(await rowsOf(folder, 'blog')).toMatch(/posts.*23/);
  });

  it('finds a profile by experiment for any other, and takes a known one by name', async () => {
    const [url, folder] = [await serve(plainService), emptyFolder()];
    const ended = await runCommand(['init', '--url', url, '--credential-env', 'KEY', '--source', 'cms'], folder, {
      KEY,
    });
    expect(ended.stdout).toMatch(
      /No shipped profile fits.*posts at \/posts: 23.*posts: ok, 23 of 23 records, verified by count/s,
    );
    expect(ended.code).toBe(0);
    expect(existsSync(path.join(folder, 'config', 'cms.profile.yaml'))).toBe(true);
    const backfill = await runCommand(['backfill', '--json'], folder, { KEY });
    expect(JSON.parse(backfill.stdout)).toMatchObject({ status: 'ok', resources: [{ unchanged: 23 }] });
  });

  it.each([
    [[], /Address of the content service: missing.*--url/s],
    [['--url', 'ftp://x'], /--url: expected an address such as https/],
    [['--url', 'http://cms.invalid', '--path', '/posts', '--credential-env', 'PATH'], /sent unencrypted/],
    [['--url', 'htp:/x'], /--url: expected an address such as https/],
    [['--url', 'https://u:p@x.example'], /without user name/],
    [['--url', 'http://127.0.0.1:9', '--source', 'A B'], /--source: expected lower-case letters/],
    [['--url', 'http://127.0.0.1:9', '--profile', 'gost'], /--profile: expected one of .*ghost/s],
    [
      ['--url', 'http://127.0.0.1:9', '--profile', 'ghost', '--credential-env', 'NOT_SET'],
      /variable NOT_SET is not set/,
    ],
  ])('says what is wrong with %j', async (args, why) => {
    const { code, stderr } = await runCommand(['init', ...args], emptyFolder());
    expect(stderr).toMatch(why);
    expect(code).toBe(2);
  });

  it('says so if nothing answers', async () => {
    const { code, stderr } = await runCommand(['init', '--url', 'http://127.0.0.1:9', '--source', 'a'], emptyFolder());
    expect(stderr).toMatch(
      /^content-sync: nothing answers at http:\/\/127\.0\.0\.1:9: .*\n {2}→ check the address.*\n$/,
    );
    expect(code).toBe(1);
  });

  it('takes listings, the form of the credential, and the profile that probe has written', async () => {
    const bare: typeof plainService = ({ headers }, url) => {
      if (headers.authorization !== KEY) return { status: 401, body: { error: 'unauthorized' } };
      return plainService({ headers: { authorization: `Bearer ${KEY}` } }, url);
    };
    const [url, folder] = [await serve(bare), emptyFolder()];
    const run = (...args: string[]) => runCommand(args, folder, { KEY });
    const probe = await run('probe', url, '--credential-env', 'KEY', '--out', 'found.yaml');
    // The experiments leave a line without proof.
    expect(probe.code).toBe(3);
    const form = 'auth: { type: api_key, in: header, name: Authorization, prefix: "" }';
    expect(readFileSync(path.join(folder, 'found.yaml'), 'utf8')).toContain(form);
    const options = ['--url', url, '--credential-env', 'KEY', '--source', 'cms'];
    const byProfile = await run('init', ...options, '--profile', 'found.yaml');
    expect([byProfile.code, byProfile.stderr]).toEqual([0, '']);
    const config = readFileSync(path.join(folder, 'config', 'content-sync.yaml'), 'utf8');
    expect(config).toContain('profile: ../found.yaml');
    expect((await run('backfill')).code).toBe(0);
    const named = await run(
      'init',
      ...options,
      '--config',
      'c/c.yaml',
      '--path',
      '/posts',
      '--auth',
      'header:Authorization',
    );
    expect([named.code, named.stderr]).toEqual([0, '']);
    expect(named.stdout).toMatch(/Found with \d+ requests:\n {2}posts at \/posts: 23/);
    const refused = await run('init', ...options, '--config', 'd/d.yaml', '--path', '/posts', '--auth', 'bearer');
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('the credential was refused') });
    const notCopied = await run('init', ...options, '--config', 'e/e.yaml', '--profile', 'found.yaml', '--no-copy');
    expect(notCopied.stdout).toMatch(/Next: content-sync backfill --config/);
    expect(notCopied.stdout).not.toContain('posts: ok');
  });

  it('adds a source to a config, whose other sources it needs no secret of', async () => {
    const [url, folder] = [await serve(plainService), emptyFolder()];
    const config = path.join(folder, 'config', 'content-sync.yaml');
    mkdirSync(path.dirname(config));
    const before = [
      '# Ours.',
      'warehouse: sqlite:data/{source}.db # one file each',
      'sources:',
      '  blog:',
      '    base_url: https://blog.example.com # the old one',
      '    auth: { type: api_key, key: "${NOT_SET}" }',
      '    profile: ghost',
      'log: { level: warn }',
      '',
    ].join('\n');
    writeFileSync(config, before);
    const init = (...args: string[]) =>
      runCommand(['init', '--url', url, '--credential-env', 'KEY', ...args], folder, { KEY });
    expect(await init('--source', 'blog')).toMatchObject({ code: 2, stderr: expect.stringContaining('a source blog') });
    const added = await init('--source', 'cms');
    expect([added.code, added.stderr]).toEqual([0, '']);
    expect(added.stdout).toContain('Next: content-sync serve --source cms');
    const after = readFileSync(config, 'utf8');
    for (const line of before.split('\n').filter((each) => each.includes('#'))) expect(after).toContain(line);
    expect(after).toMatch(/ {2}cms:\n {4}base_url: http/);
    expect((await runCommand(['backfill', '--source', 'cms'], folder, { KEY })).code).toBe(0);
    expect(await rowsOf(folder, 'cms')).toMatch(/posts.*23/);

    writeFileSync(config, before.replace('{source}', 'one'));
    const crowded = await init('--source', 'shop');
    expect(crowded).toMatchObject({ code: 2, stderr: expect.stringContaining('expected {source} in the path') });
    expect(readFileSync(config, 'utf8')).toBe(before.replace('{source}', 'one'));
  });

  it('leaves a config that is there alone', async () => {
    const folder = emptyFolder();
    const config = path.join(folder, 'config', 'content-sync.yaml');
    mkdirSync(path.dirname(config));
    writeFileSync(config, 'mine\n');
    const { code, stderr } = await runCommand(['init', '--url', 'http://127.0.0.1:9'], folder);
    expect([code, readFileSync(config, 'utf8')]).toEqual([2, 'mine\n']);
    expect(stderr).toMatch(/exists already.*--force/s);
  });
});

describe('content-sync init, at a terminal', () => {
  it('asks for what it needs, never shows the credential, and writes it to .env', async () => {
    const [url, folder] = [await serve(ghostLike), emptyFolder()];
    const said = await atTerminal(
      folder,
      ['init'],
      [
        [/Address of the content service/, `${url}\r`],
        [/Name of the source/, 'blog\r'],
        [/Content API key/, `${KEY}\r`],
        [/Database of the copy/, '\r'],
        [/Write config.content-sync\.yaml/, '\r'],
        [/Copy it now/, '\r'],
      ],
    );
    expect(said.text).toMatch(/Next: content-sync serve/);
    expect(said.text).not.toContain(KEY);
    expect(said.code).toBe(0);
    const env = path.join(folder, '.env');
    expect(readFileSync(env, 'utf8')).toBe(`BLOG_CREDENTIAL=${KEY}\n`);
    expect(statSync(env).mode & 0o077).toBe(0);
    // Every later command reads it.
    const backfill = await runCommand(['backfill', '--json'], folder);
    expect(JSON.parse(backfill.stdout)).toMatchObject({ status: 'ok' });
  });

  it('writes nothing if it is stopped at a question', async () => {
    const folder = emptyFolder();
    const said = await atTerminal(folder, ['init'], [[/Address of the content service/, '\u0003']]);
    expect(said.code).toBe(130);
    expect(existsSync(path.join(folder, 'config'))).toBe(false);
  });
});

/** Types each answer once its question is on the screen. */
async function atTerminal(
  cwd: string,
  args: readonly string[],
  answers: readonly (readonly [question: RegExp, answer: string])[],
): Promise<{ text: string; code: number }> {
  const terminal = spawn(process.execPath, [MAIN, ...args], { cwd, cols: 120, rows: 40, env: process.env });
  const left = [...answers];
  let [text, unread] = ['', ''];
  return new Promise((resolve) => {
    terminal.onData((data) => {
      text += data;
      unread += data;
      const [next] = left;
      if (next === undefined || !next[0].test(unread)) return;
      left.shift();
      unread = '';
      terminal.write(next[1]);
    });
    terminal.onExit(({ exitCode }) => resolve({ text, code: exitCode }));
  });
}
