import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { runCommand, type Ended } from '../support/command.ts';
import { eitherDatabase } from '../support/databases.ts';
import { journey } from '../support/journey.ts';

/** Every kind of secret that a config can name, none of them with a default. */
const SECRETS = {
  privacy_key: '${SECRET_PRIVACY}',
  serve: { auth: { user: 'ann', password: '${SECRET_PAGE}' } },
  alerts: {
    chat: { type: 'slack', url: '${SECRET_CHAT}' },
    post: { type: 'post', url: 'https://alerts.example.com/${SECRET_PATH}', headers: { 'X-Token': '${SECRET_POST}' } },
    mail: {
      type: 'email',
      host: 'mail.example.com',
      from: 'a@example.com',
      to: ['b@example.com'],
      user: 'ann',
      password: '${file:/no/such/file}',
    },
  },
};

const SOURCE_SECRETS = {
  auth: { type: 'api_key', key: '${SECRET_KEY}' },
  hash_key: '${SECRET_HASH}',
  ping: { success: '${SECRET_PING}' },
  webhook: { secrets: ['${SECRET_HOOK}', { value: '${SECRET_OLD_HOOK}', until: '2030-01-01T00:00:00Z' }] },
  http: { proxy: '${SECRET_PROXY}' },
};

describe.for(eitherDatabase(import.meta.filename))('secrets that are not set, on $name', (database) => {
  it('are not needed by commands that do not use them, and not those of another source', async () => {
    const blog = await journey({ database, sandbox: { generate: { content: 2, images: 1, analytics: 1 } } });
    expect((await blog.command('backfill')).code).toBe(0);
    const config = path.join(blog.folder, 'secrets.yaml');
    const profile = path.join(blog.folder, 'secret.profile.yaml');
    writeFileSync(profile, JSON.stringify({ extends: 'content-service', headers: { 'X-App': '${SECRET_APP}' } }));
    const base_url = blog.sandbox.url;
    const oauth = { type: 'oauth', client_id: '${SECRET_ID}', client_secret: '${SECRET_OAUTH}' };
    const shop = {
      ...SOURCE_SECRETS,
      base_url: '${SECRET_PLACE}',
      profile: './shop.profile.yaml',
      auth: { ...oauth, token_url: '${SECRET_TOKEN_URL}' },
    };
    const ownPath = path.join(blog.folder, 'shop.profile.yaml');
    writeFileSync(
      ownPath,
      JSON.stringify({ extends: 'content-service', headers: { 'X-App': '${SECRET_SHOP}' }, auth: { type: 'oauth' } }),
    );
    const warehouse = blog.address.replace('blog', '{source}');
    const write = (sources: object, settings: object): void =>
      writeFileSync(config, JSON.stringify({ warehouse, sources, control: null, ...settings }));
    const run = (...args: string[]): Promise<Ended> => runCommand([...args, '--config', config], blog.folder);

    write({ blog: { ...SOURCE_SECRETS, base_url, profile: './secret.profile.yaml' } }, SECRETS);
    const file = path.join(blog.folder, 'blog.backup');
    for (const args of [['status'], ['runs'], ['pause'], ['resume'], ['backup', file]]) {
      if (args[0] === 'backup' && database.name === 'postgres') continue;
      expect([args, await run(...args)]).toMatchObject([args, { code: 0, stderr: '' }]);
    }
    const health = await run('health', '--port', '9');
    expect(health).toMatchObject({ code: 1, stdout: expect.stringContaining('does not respond') });
    const refused = await run('sync');
    expect(refused.code).toBe(2);
    for (const name of ['KEY', 'HASH', 'PING', 'HOOK', 'OLD_HOOK', 'PROXY', 'APP', 'PRIVACY', 'PAGE', 'CHAT', 'POST']) {
      expect(refused.stderr).toContain(`SECRET_${name}, got nothing`);
    }

    const auth = { type: 'api_key', key: blog.sandbox.apiKey };
    write({ blog: { base_url, auth, profile: './profile.yaml' }, shop }, {});
    expect((await run('status')).code).toBe(2);
    expect(await run('sync', '--source', 'blog')).toMatchObject({ code: 0 });
    const other = await run('sync', '--source', 'shop');
    expect(other).toMatchObject({ code: 2, stderr: expect.stringContaining('SECRET_SHOP, got nothing') });
  });
});
