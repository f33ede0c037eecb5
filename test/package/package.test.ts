import { spawn, type SpawnSyncReturns } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { startSandbox } from '../sandbox/service/sandbox.ts';
import { buildInto, root, run, tempFolder } from './built.ts';
import { IS_LONG } from '../support/length.ts';

const textOf = (file: string): string => readFileSync(path.join(root, file), 'utf8');
const manifest: { version: string; license: string; bin: Record<string, string> } = JSON.parse(textOf('package.json'));

/** What npm says where the registry is out of reach, which is no fault of the package. */
const OFFLINE = /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|ENOTCACHED|E5\d\d|E40[13]/;

function packedFiles(folder: string): string[] {
  const { stdout } = run('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], folder);
  const packed: { files: { path: string }[] }[] = JSON.parse(stdout);
  return (packed[0]?.files ?? []).map((file) => file.path);
}

describe('the package', () => {
  it('contains every file that its documentation links to, and no link to a package of a registry', () => {
    const files = packedFiles(root);
    const pages = files.filter((file) => file.endsWith('.md'));
    const texts = files.filter((file) => !/^dist\/|\.png$/.test(file));
    expect(texts.filter((file) => textOf(file).includes('npmjs.com/package'))).toEqual([]);
    expect(pages).toEqual(expect.arrayContaining(['README.md', 'CHANGELOG.md', 'config/README.md']));
    for (const page of pages) {
      const links = [...textOf(page).matchAll(/\]\(([^)#\s]+)|(?:src|srcset)="([^"]+)"/g)];
      const targets = links.map(([, link, picture]) => link ?? picture ?? '').filter((link) => !/^https?:/.test(link));
      const missing = targets.filter((target) => !files.includes(path.posix.join(path.posix.dirname(page), target)));
      expect({ page, missing }).toEqual({ page, missing: [] });
    }
  });

  it('names its version in the changelog and in the lock file, and no licence', () => {
    expect(/^## (\S+)/m.exec(textOf('CHANGELOG.md'))?.[1]).toBe(manifest.version);
    const lock: typeof manifest & { packages: Record<string, { version: string }> } = JSON.parse(
      textOf('package-lock.json'),
    );
    expect([lock.version, lock.packages['']?.version]).toEqual([manifest.version, manifest.version]);
    expect(manifest.license).toBe('UNLICENSED');
  });

  it('runs from its build with its production dependencies alone, in a folder that holds nothing but data', async (context) => {
    const folder = tempFolder();
    const [app, data] = [path.join(folder, 'app'), path.join(folder, 'data')];
    buildInto(app);
    const files = packedFiles(app);
    expect(files).toEqual(expect.arrayContaining(['dist/src/main.js', 'dist/licences.txt']));
    expect(files).toEqual(
      expect.arrayContaining(['config/profiles/content-service.yaml', 'config/content-sync.example.yaml']),
    );
    expect(files.filter((file) => /^(src|test|migrations)\/.*\.ts$|node_modules/.test(file))).toEqual([]);
    // A command line: nobody imports it, so nobody reads declarations.
    expect(files.filter((file) => file.endsWith('.d.ts'))).toEqual([]);

    const installed = IS_LONG ? installInto(app) : copyPackages(app);
    if (installed.status !== 0 && OFFLINE.test(installed.stderr))
      context.skip(`npm cannot install: ${installed.stderr.slice(0, 300)}`);
    expect([installed.status, installed.stderr]).toEqual([0, expect.any(String)]);
    expect(existsSync(path.join(app, 'node_modules', 'vitest'))).toBe(false);

    const main = path.join(app, manifest.bin['content-sync'] ?? '');
    expect(readFileSync(main, 'utf8')).toMatch(/^#!\/usr\/bin\/env node\n/);
    mkdirSync(data);
    expect(run(process.execPath, [main, '--version'], data)).toMatchObject({
      status: 0,
      stdout: `${manifest.version}\n`,
    });

    const service = run(process.execPath, [main, 'sandbox', '--help'], data);
    expect([service.status, service.stdout]).toEqual([0, expect.stringContaining('--generate')]);
    const ended = await useAgainstService(main, folder, data);
    expect(ended).toEqual([0, 0, 200, 0]);
    // The one place that is written is the folder it was started in.
    expect(existsSync(path.join(data, 'data', 'blog.db'))).toBe(true);
  });
});

function installInto(app: string): SpawnSyncReturns<string> {
  return run('npm', ['ci', '--omit=dev', '--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund'], app);
}

/** What that would install is here too, as the lock says: npm itself takes longer than all that is looked at. */
function copyPackages(app: string): SpawnSyncReturns<string> {
  const lock: { packages: Record<string, { dev?: boolean; devOptional?: boolean }> } = JSON.parse(
    textOf('package-lock.json'),
  );
  const folders = Object.entries(lock.packages).flatMap(([place, { dev = false, devOptional = false }]) =>
    place !== '' && !dev && !devOptional && existsSync(path.join(root, place)) ? [place] : [],
  );
  // Packages within others come with those.
  const outer = folders.filter((place) => !folders.some((other) => place.startsWith(`${other}/`)));
  return run('cp', ['-a', '--parents', ...outer, app], root);
}

/** `check`, `backfill` and `serve`, configured as the container is: their exit codes, and what the page answered. */
async function useAgainstService(main: string, folder: string, data: string): Promise<(number | null)[]> {
  const config = path.join(folder, 'content-sync.yaml');
  writeFileSync(config, textOf('config/content-sync.example.yaml').replace('https://cms.example.com', '${URL}'));
  const sandbox = await startSandbox({ generate: { content: 250, images: 20, analytics: 300 } });
  const env = { ...process.env, CONTENT_SYNC_CONFIG: config, CONTENT_API_KEY: sandbox.apiKey, URL: sandbox.url };
  try {
    const codes: (number | null)[] = [];
    for (const command of ['check', 'backfill']) codes.push(await exitOf(main, command, data, env));
    return [...codes, ...(await serveOnce(main, data, env))];
  } finally {
    await sandbox.close();
  }
}

async function serveOnce(main: string, cwd: string, env: NodeJS.ProcessEnv): Promise<(number | null)[]> {
  const child = spawn(process.execPath, [main, 'serve', '--port', '0'], {
    cwd,
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const ended = once(child, 'exit');
  let log = '';
  for await (const chunk of child.stderr) {
    log += String(chunk);
    const url = /"url":"([^"]+)"/.exec(log)?.[1];
    if (url === undefined) continue;
    const { status } = await fetch(url);
    child.kill('SIGTERM');
    const [code] = await ended;
    return [status, typeof code === 'number' ? code : null];
  }
  throw new Error(log);
}

/** Not `spawnSync`: the service runs in this process and has to answer meanwhile. */
async function exitOf(main: string, command: string, cwd: string, env: NodeJS.ProcessEnv): Promise<number | null> {
  const child = spawn(process.execPath, [main, command], { cwd, env, stdio: ['ignore', 'ignore', 'inherit'] });
  const [code] = await once(child, 'close');
  return typeof code === 'number' ? code : null;
}
