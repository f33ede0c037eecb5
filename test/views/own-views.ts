import { asOtherClient, type TestDatabase } from '../support/databases.ts';
import type { Journey } from '../support/journey.ts';
import { asOther } from '../support/temp-warehouse.ts';

/** Views that people made on ours. */
export interface OwnViews {
  /** Each reads one of them. */
  queries: string[];
  /** Fills those again that hold rows of their own. */
  refresh: () => Promise<void>;
}

const SQLITE_VIEWS = {
  my_posts: `SELECT id, title, word_count + 1 AS more, reading_minutes * 60 AS seconds, NOT featured AS plain,
    strftime('%Y', published_at) AS year FROM content_live`,
  my_tags: 'SELECT content_id, upper(value) AS tag FROM content_tags_live',
  my_days: "SELECT id, date(date, '+1 day') AS next, views * 2 AS twice, referrer FROM analytics_live",
};

const POSTGRES_VIEWS = {
  my_posts: `SELECT id, title, word_count + 1 AS more, reading_minutes * 60 AS seconds, NOT featured AS plain,
    date_part('year', published_at AT TIME ZONE 'UTC') AS year FROM content_live`,
  my_tags: 'SELECT content_id, upper(value) AS tag FROM content_tags_live',
  my_days: 'SELECT id, date + 1 AS next, views * 2 AS twice, referrer FROM analytics_live',
};

/** Makes them; on Postgres also those of a role that may only read, and materialized ones. */
export async function ownViews(database: TestDatabase, stage: Pick<Journey, 'address' | 'file'>): Promise<OwnViews> {
  if (database.name === 'sqlite') {
    const made = Object.entries(SQLITE_VIEWS).map(([name, query]) => `CREATE VIEW ${name} AS ${query}`);
    asOther(stage.file, (db) => db.exec(made.join(';')));
    return {
      queries: Object.keys(SQLITE_VIEWS).map((name) => `SELECT * FROM ${name}`),
      refresh: () => Promise.resolve(),
    };
  }
  const names = Object.keys(POSTGRES_VIEWS);
  await run(stage.address, (schema) => postgresViews(schema));
  const refresh = (): Promise<void> =>
    run(stage.address, () => names.map((name) => `REFRESH MATERIALIZED VIEW ${name}_kept`));
  const all = names.flatMap((name) => [name, `${name}_kept`, `people_of_blog.${name}`]);
  return { queries: all.map((name) => `SELECT * FROM ${name}`), refresh };
}

function postgresViews(schema: string): string[] {
  const role = `reader_of_${schema}`;
  const own = Object.entries(POSTGRES_VIEWS).flatMap(([name, query]) => [
    `CREATE VIEW ${name} AS ${query}`,
    `CREATE MATERIALIZED VIEW ${name}_kept AS ${query}`,
  ]);
  const theirs = Object.entries(POSTGRES_VIEWS).map(
    ([name, query]) => `CREATE VIEW people_of_blog.${name} AS ${query}`,
  );
  return [
    ...own,
    `CREATE ROLE ${role}`,
    `GRANT USAGE ON SCHEMA ${schema} TO ${role}`,
    `GRANT SELECT ON content_live, content_tags_live, analytics_live TO ${role}`,
    `CREATE SCHEMA people_of_blog AUTHORIZATION ${role}`,
    `SET ROLE ${role}`,
    ...theirs,
    'RESET ROLE',
  ];
}

async function run(address: string, statementsIn: (schema: string) => string[]): Promise<void> {
  const schema = new URL(address).searchParams.get('schema') ?? '';
  await asOtherClient(address, async (client) => {
    for (const statement of statementsIn(schema)) await client.query(statement);
  });
}
