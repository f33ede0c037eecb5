import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { startSandbox } from '../sandbox/service/sandbox.ts';
import { type Ended, runCommand } from '../support/command.ts';
import { asOtherClient, POSTGRES, postgresDatabase } from '../support/databases.ts';
import { tempFolder } from '../support/temp-warehouse.ts';
import { filesIn, type Leak, leakFinder } from './canaries.ts';
import { createServer, type Socket } from 'node:net';
import { portOf } from './port-of.ts';

const CLEARTEXT = message('R', Buffer.from([0, 0, 0, 3]));

/** Asks for the password as it is, and refuses it with a message that gives it back: the worst that a server can do. */
async function startRefusingPostgres(): Promise<{ port: number; passwords: string[] }> {
  const passwords: string[] = [];
  const server = createServer((socket) => {
    let isAsked = false;
    socket
      .on('error', () => undefined)
      .on('data', (bytes) => {
        if (isAsked) refuse(socket, passwords, bytes);
        else socket.write(CLEARTEXT);
        isAsked = true;
      });
  });
  const port = await portOf(server);
  onTestFinished(() => {
    server.close();
  });
  return { port, passwords };
}

function refuse(socket: Socket, passwords: string[], bytes: Buffer): void {
  const password = bytes.subarray(5, -1).toString();
  passwords.push(password);
  const text = `password authentication failed for user "app" with ${password}`;
  const fields = ['SFATAL', 'VFATAL', 'C28P01', `M${text}`, `D${JSON.stringify({ password })}`];
  socket.end(message('E', Buffer.from(`${fields.join('\0')}\0\0`)));
}

function message(type: string, body: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.write(type);
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}

/** One that has to be percent-encoded, and whose parts are long enough to be told from chance. */
const freshPassword = (): string => `pos${randomBytes(4).toString('hex')}/canary@wört 0815`;

interface Stage {
  folder: string;
  password: string;
  run: (args: readonly string[]) => Promise<Ended>;
  /** What they have printed so far. */
  printed: () => string;
  /** Where the password was found in what the commands have printed and written. */
  leaks: (...more: readonly (readonly [where: string, text: string])[]) => Leak[];
}

/** A config whose warehouse is what `address` makes of the password, and the real command line. */
async function stageWith(address: (password: string) => string): Promise<Stage> {
  const folder = tempFolder();
  const password = freshPassword();
  const sandbox = await startSandbox({ apiKey: 'key', generate: { content: 4, images: 1, analytics: 1 } });
  onTestFinished(() => sandbox.close());
  const blog = { base_url: sandbox.url, auth: { type: 'api_key', key: 'key' }, profile: 'content-service' };
  const config = { warehouse: address(password), sources: { blog }, log: { level: 'trace' } };
  writeFileSync(path.join(folder, 'config.yaml'), JSON.stringify(config));
  const encoded = encodeURIComponent(password);
  const find = leakFinder({ password, encoded });
  let printed = '';
  return {
    folder,
    password,
    run: async (args) => {
      const ended = await runCommand([...args, '-c', 'config.yaml'], folder);
      printed += ended.stdout + ended.stderr;
      return ended;
    },
    printed: () => printed,
    leaks: (...others) => [
      ...find('output', Buffer.from(printed).toString('latin1')),
      ...filesIn(folder, (file) => file === 'config.yaml').flatMap(([file, bytes]) => find(file, bytes)),
      ...others.flatMap(([where, text]) => find(where, Buffer.from(text).toString('latin1'))),
    ],
  };
}

/** An address with user and password before the host of another one. */
function withUser(url: string, user: string, password: string): string {
  return url.replace(/\/\/[^@/]*@?(?=127)/, `//${user}:${encodeURIComponent(password)}@`);
}

/** All rows of all tables of a database as text. */
async function contentOf(url: string): Promise<string> {
  return asOtherClient(url, async (client) => {
    const tables = await client.query<{ name: string }>(
      "SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables WHERE schemaname <> 'information_schema' AND schemaname <> 'pg_catalog'",
    );
    const texts: string[] = [];
    for (const { name } of tables.rows) {
      const { rows } = await client.query<{ text: string }>(`SELECT t::text AS text FROM ${name} AS t`);
      texts.push(...rows.map(({ text }) => text));
    }
    return texts.join('\n');
  });
}

const COMMANDS = [['check'], ['backfill', '--json'], ['status'], ['status', '--json']];

describe.runIf(POSTGRES.missing === null)("F211 the warehouse's password", () => {
  it('F211 is written nowhere while all goes well: output, logs, files, tables', async () => {
    const url = await postgresDatabase();
    const stage = await stageWith((password) => withUser(url, 'postgres', password));
    for (const args of COMMANDS) expect([args, (await stage.run(args)).code]).toEqual([args, 0]);
    expect(stage.printed()).toContain(`postgres://${new URL(url).host}${new URL(url).pathname}?schema=blog`);
    const role = `bi_${process.pid}_${Date.now().toString(36)}`;
    await stage.run(['grants', '--role', role]);
    expect(stage.leaks(['tables', await contentOf(url)])).toEqual([]);
    await asOtherClient(url, (client) => client.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`));
  });

  it('F211 is not given back where the server refuses it, and says it aloud', async () => {
    const refusing = await startRefusingPostgres();
    const stage = await stageWith((password) => withUser(`postgres://127.0.0.1:${refusing.port}/c`, 'app', password));
    await Promise.all(
      [...COMMANDS, ['grants', '--role', 'bi']].map(async (args) => {
        const { code, stderr } = await stage.run(args);
        expect([args, code]).toEqual([args, 2]);
        expect(stderr.replaceAll('\\"', '"')).toContain('password authentication failed for user "app" with ***');
        expect(stderr).toContain('warehouse_refused');
      }),
    );
    expect(refusing.passwords).toContain(stage.password);
    expect(stage.leaks()).toEqual([]);
  });

  it('F211 is not shown where the database or the role is not there, or nobody answers', async () => {
    const url = await postgresDatabase();
    const told: (readonly [address: (password: string) => string, code: number, message: RegExp])[] = [
      [(password) => withUser(url.replace(/[^/]*$/, 'nowhere'), 'postgres', password), 2, /"nowhere" does not exist/],
      [(password) => withUser(url, 'nobody', password), 2, /role "nobody" does not exist/],
      [(password) => withUser('postgres://127.0.0.1:1/c', 'app', password), 1, /127\.0\.0\.1:1.*ECONNREFUSED/],
      [
        (password) => `postgres://app:${encodeURIComponent(password)}@nowhere.invalid/c?sslmode=disable`,
        2,
        /nowhere\.invalid/,
      ],
      [(password) => `${withUser(url, 'postgres', password)}?sslmode=require`, 2, /TLS|SSL/],
    ];
    await Promise.all(
      told.map(async ([address, code, message]) => {
        const stage = await stageWith(address);
        const ended = await stage.run(['backfill']);
        expect([ended.stderr, ended.code]).toEqual([expect.stringMatching(message), code]);
        expect(stage.leaks()).toEqual([]);
      }),
    );
  });
});
