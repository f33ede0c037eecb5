import { describe, expect, it, onTestFinished } from 'vitest';
import { openWarehouse } from '../../../../src/database/databases.ts';
import { ConfigError } from '../../../../src/model/errors.ts';
import { systemClock } from '../../../../src/observe/system-clock.ts';
import { loadOnce } from '../../../support/content-loader.ts';
import { rowsOf } from '../../../support/copied-cells.ts';
import { asOtherClient, POSTGRES } from '../../../support/databases.ts';
import { asRole, handOver, limitedRole } from '../../../support/limited-role.ts';
import { ownStage } from '../../../support/own-stage.ts';
import { scoreTable, SMALL, SUMS, sumsOf, WIDER } from '../../../support/score-table.ts';

/** Functions of `stranger` that note as whom they run, also where none should write; in a table open to everybody. */
const spies = (stranger: string): string => `
  CREATE SCHEMA reports AUTHORIZATION ${stranger};
  GRANT USAGE, CREATE ON SCHEMA blog TO ${stranger}; GRANT SELECT ON content TO ${stranger};
  SET ROLE ${stranger};
  CREATE TABLE reports.ran (what text, who name);
  GRANT USAGE ON SCHEMA reports TO PUBLIC; GRANT INSERT ON reports.ran TO PUBLIC;
  CREATE FUNCTION reports.note(what text) RETURNS void LANGUAGE sql AS 'INSERT INTO reports.ran VALUES (what, current_user)';
  CREATE FUNCTION reports.spy(what text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
    BEGIN PERFORM reports.note(what); RETURN what; END $$;
  CREATE FUNCTION reports.notice() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN PERFORM reports.spy('trigger'); RETURN NEW; END $$`;

/** What they make of the copied rows: all that holds code of theirs. */
const HIDEOUTS = `
  CREATE MATERIALIZED VIEW reports.stored AS
    SELECT id, score, reports.spy('materialised view ' || id) AS spied FROM content WHERE id < '12';
  CREATE UNIQUE INDEX by_spy ON reports.stored (id, (id || reports.spy('index')));
  CREATE INDEX of_some ON reports.stored (score) WHERE reports.spy('condition') <> score::text;
  CREATE MATERIALIZED VIEW blog.beside AS SELECT count(score) AS n, reports.spy('beside') AS spied FROM content;
  CREATE MATERIALIZED VIEW reports.never AS SELECT score, reports.spy('never') AS spied FROM content WITH NO DATA;
  CREATE VIEW reports.shown AS SELECT id, score, reports.spy('view') AS spied FROM content;
  CREATE MATERIALIZED VIEW reports.on_top AS SELECT max(spied) AS last FROM reports.shown;
  CREATE TRIGGER noticed INSTEAD OF INSERT ON reports.shown FOR EACH ROW EXECUTE FUNCTION reports.notice();
  CREATE RULE ruled AS ON UPDATE TO reports.shown DO INSTEAD SELECT reports.spy('rule')`;

/** Functions of an exact type, which Postgres prefers to its own of any type. */
const SPIED = [
  ...['text', 'bigint', 'timestamptz', 'tid'].map((type) => [`unnest(${type}[])`, `SETOF ${type}`] as const),
  ['format(text,name)', 'text'],
  ['format(text,text)', 'text'],
  ['format(text,name,name)', 'text'],
  ['array_to_string(text[],text)', 'text'],
  ['starts_with(name,text)', 'boolean'],
  ['quote_ident(name)', 'text'],
  ['to_jsonb(text)', 'jsonb'],
] as const;

const RAN = 'SELECT DISTINCT what, who FROM reports.ran ORDER BY what, who';
const STORED = `SELECT (SELECT count(*)::int FROM reports.stored) AS stored, (SELECT n::int FROM blog.beside) AS beside,
  (SELECT last FROM reports.on_top) AS last,
  (SELECT string_agg(matviewname, ',' ORDER BY matviewname) FROM pg_matviews WHERE NOT ispopulated) AS empty,
  (SELECT count(DISTINCT matviewowner)::int FROM pg_matviews) AS owners,
  (SELECT count(*)::int FROM pg_indexes WHERE tablename = 'stored') AS indexes`;

describe.skipIf(POSTGRES.missing !== null)('what other roles made on copied tables', () => {
  it.each([
    { who: 'a superuser', isLimited: false },
    { who: 'a role that is one of theirs', isLimited: true },
  ])('is made again through a widening by $who, and runs with the rights of its owner alone', async (each) => {
    const { address } = await scoreTable(SMALL);
    const stranger = await limitedRole(address);
    const own = await limitedRole(address);
    await asOtherClient(address, (client) => client.query(spies(stranger.role)));
    await asOtherClient(address, (client) => client.query(`SET ROLE ${stranger.role}; ${HIDEOUTS}`));
    const before = await rowsOf(address, STORED);
    await asOtherClient(address, (client) =>
      client.query(
        `TRUNCATE reports.ran; GRANT ${stranger.role} TO ${own.role}; ${each.isLimited ? handOver(own.role) : ''}`,
      ),
    );
    const warehouse = await openWarehouse(each.isLimited ? own.address : address, systemClock);
    onTestFinished(() => warehouse.close());
    await loadOnce(warehouse, [WIDER]);
    expect(await rowsOf(address, SUMS)).toEqual([sumsOf(SMALL, 1)]);
    const ran = await rowsOf(address, RAN);
    expect(ran.filter(({ who }) => who !== stranger.role)).toEqual([]);
    expect(ran.map(({ what }) => what)).toEqual(expect.arrayContaining(['beside', 'condition', 'index', 'view']));
    expect(await rowsOf(address, STORED)).toEqual(before);
    expect(await rowsOf(address, 'SELECT DISTINCT matviewowner AS owner FROM pg_matviews')).toEqual([
      { owner: stranger.role },
    ]);
  });

  it.each([
    ['a function', "CREATE FUNCTION unnest(text[]) RETURNS SETOF text LANGUAGE sql AS $$ SELECT 'x' $$", 'unnest'],
    [
      'an operator',
      `CREATE FUNCTION mine(name, text) RETURNS boolean LANGUAGE sql AS $$ SELECT true $$;
       CREATE OPERATOR = (LEFTARG = name, RIGHTARG = text, FUNCTION = mine)`,
      '=(name,text)',
    ],
    [
      'a trigger',
      `CREATE FUNCTION mine() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
       CREATE TRIGGER noticed BEFORE UPDATE ON content FOR EACH ROW EXECUTE FUNCTION mine()`,
      'trigger noticed on',
    ],
  ])('is refused at the start where it would run with our rights: %s', async (_, statement, named) => {
    const { address } = await scoreTable(SMALL);
    const { role } = await limitedRole(address);
    await asOtherClient(address, (client) =>
      client.query(`GRANT USAGE, CREATE ON SCHEMA blog TO ${role}; GRANT TRIGGER ON content TO ${role}`),
    );
    await asOtherClient(asRole(address, role), (client) => client.query(statement));
    const refusal: unknown = await openWarehouse(address, systemClock).catch((error: unknown) => error);
    if (!(refusal instanceof ConfigError)) throw new Error('it was opened', { cause: refusal });
    expect([refusal.code, refusal.message]).toEqual(['schema_unsafe', expect.stringContaining(named)]);
    expect(refusal.message).toContain(`(of ${role})`);
    const remedy = /then run: (DROP [^;]*);/.exec(refusal.hint ?? '')?.[1] ?? '';
    await asOtherClient(address, (client) => client.query(remedy));
    await (await openWarehouse(address, systemClock)).close();
  });

  it.each(['blog', 'content_sync'])(
    'is refused if the schema %s is theirs, until it is handed over',
    async (schema) => {
      const address = await POSTGRES.address();
      const [stranger, own] = [await limitedRole(address), await limitedRole(address)];
      await asOtherClient(address, (client) =>
        client.query(`DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO ${stranger.role}, ${own.role}',
        current_database()); END $$`),
      );
      await asOtherClient(stranger.address, (client) =>
        client.query(`CREATE SCHEMA ${schema}; GRANT USAGE, CREATE ON SCHEMA ${schema} TO ${own.role}`),
      );
      const refusal: unknown = await openWarehouse(own.address, systemClock).catch((error: unknown) => error);
      expect(refusal).toMatchObject({
        code: 'schema_unsafe',
        message: expect.stringContaining(`the schema itself (of ${stranger.role})`),
      });
      const remedy = /then run: (ALTER [^;]*);/.exec(refusal instanceof ConfigError ? (refusal.hint ?? '') : '')?.[1];
      await asOtherClient(address, (client) => client.query(remedy ?? ''));
      await (await openWarehouse(own.address, systemClock)).close();
    },
  );

  it.each(['public', 'blog'])('is never called, made in %s while a process is running', async (schema) => {
    const stage = await ownStage(POSTGRES, [{ id: 1, updated_at: '2024-01-01T00:00:00Z', tags: ['a'] }], {
      content: { history: 'all' },
    });
    const app = await stage.open();
    onTestFinished(() => app.close());
    const { role } = await limitedRole(stage.address);
    const spy = (call: string, returns: string): string => {
      const [name = '', types = ''] = call.split(/[()]/);
      const values = types.split(',').map((_, at) => `$${at + 1}`);
      const result = `pg_catalog.${name}(${values.join(', ')})`;
      const body = returns.startsWith('SETOF') ? `RETURN QUERY SELECT ${result}` : `RETURN ${result}`;
      return `CREATE FUNCTION ${schema}.${call} RETURNS ${returns} LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO loot.ran VALUES ('${name}'); ${body}; END $$;`;
    };
    await asOtherClient(stage.address, (client) =>
      client.query(`CREATE SCHEMA loot; CREATE TABLE loot.ran (what text); GRANT CREATE, USAGE ON SCHEMA ${schema} TO ${role};
        SET ROLE ${role}; ${SPIED.map(([call, returns]) => spy(call, returns)).join('')}`),
    );
    stage.service.put({ id: 2, updated_at: '2024-02-01T00:00:00Z', tags: ['b'], subtitle: 'new' });
    const { signal } = new AbortController();
    const watcher = { started: () => undefined, page: () => undefined, ended: () => undefined };
    const asked = { command: 'backfill', resources: ['content'], restart: false, signal, watcher } as const;
    expect(await app.sync(asked)).toMatchObject({ status: 'ok', resources: [{ inserted: 1 }] });
    if (schema === 'public') for (const command of ['verify', 'status']) await stage.command(command);
    expect(await rowsOf(stage.address, 'SELECT DISTINCT what FROM loot.ran')).toEqual([]);
  });

  it('is looked for again before a widening', async () => {
    const { address, load } = await scoreTable(SMALL);
    const { role } = await limitedRole(address);
    await asOtherClient(address, (client) => client.query(`GRANT USAGE, CREATE ON SCHEMA blog TO ${role}`));
    await asOtherClient(asRole(address, role), (client) =>
      client.query("CREATE FUNCTION format(text, name) RETURNS text LANGUAGE sql AS $$ SELECT 'DROP TABLE content' $$"),
    );
    await expect(load([WIDER])).rejects.toMatchObject({ name: 'ConfigError', code: 'schema_unsafe' });
    expect(await rowsOf(address, SUMS)).toEqual([sumsOf(SMALL)]);
  });
});
