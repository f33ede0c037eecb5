import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';

const WAREHOUSE = path.join(import.meta.dirname, '../../src/warehouse');
const WORD = /[a-z_][a-z0-9_]*/gi;

/** What statements begin with, and their parts: who writes such a text means SQL. */
const SQL = /\b(?:SELECT|INSERT|UPDATE|DELETE|FROM|WHERE|SET|COPY|ALTER|CREATE|DROP|CASE|CAST|AS|ORDER|COMMENT)\b/;
const QUOTED = /`(?:[^`\\]|\\.)*`|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"/g;

/** The words of https://www.sqlite.org/lang_keywords.html. */
const SQLITE_WORDS = `abort action add after all alter always analyze and as asc attach autoincrement before begin
  between by cascade case cast check collate column commit conflict constraint create cross current current_date
  current_time current_timestamp database default deferrable deferred delete desc detach distinct do drop each else end
  escape except exclude exclusive exists explain fail filter first following for foreign from full generated glob group
  groups having if ignore immediate in index indexed initially inner insert instead intersect into is isnull join key
  last left like limit match materialized natural no not nothing notnull null nulls of offset on or order others outer
  over partition plan pragma preceding primary query raise range recursive references regexp reindex release rename
  replace restrict returning right rollback row rows savepoint select set table temp temporary then ties to transaction
  trigger unbounded union unique update using vacuum values view virtual when where window with without`.split(/\s+/);

/** What `pg_get_keywords()` of Postgres 17 has beyond them, and what its statements have learned since. */
const POSTGRES_WORDS = `absent absolute access admin aggregate also analyse any array asensitive assertion assignment
  asymmetric at atomic attribute authorization backward bigint binary bit boolean both breadth cache call called
  cascaded catalog chain char character characteristics checkpoint class close cluster coalesce collation columns comment
  comments committed compression concurrently conditional configuration connection constraints content continue
  conversion copy cost csv cube current_catalog current_role current_schema current_user cursor cycle data day deallocate
  dec decimal declare defaults definer delimiter delimiters depends depth dictionary disable discard document domain
  double empty enable encoding encrypted enforced enum error escape event excluding execute expression extension external
  extract false family finalize float force format forward freeze function functions global grant granted greatest
  grouping handler header hold hour identity ilike immutable implicit import include including increment indent indexes
  inherit inherits inline inout input insensitive int integer interval invoker isolation json json_array json_arrayagg
  json_exists json_object json_objectagg json_query json_scalar json_serialize json_table json_value keep keys label
  language large lateral leading leakproof least level listen load local localtime localtimestamp location lock locked
  logged lsn mapping maxvalue merge merge_action method minute minvalue mode month move name names national nchar nested
  new next nfc nfd nfkc nfkd none normalize normalized nowait nullif numeric object objects off oids old omit only
  operator option options ordinality out overlaps overlay overriding owned owner parallel parameter parser partial passing
  password path period placing plans policy position precision prepare prepared preserve prior privileges procedural
  procedure procedures program publication quote quotes read real reassign refresh relative repeatable replica reset
  return returns revoke role rollup routine routines rule scalar schema schemas scroll search second security sequence
  sequences serializable server session session_user setof sets share show similar simple skip smallint snapshot some
  source split sql stable standalone start statement statistics stdin stdout storage stored strict string strip
  subscription substring support symmetric sysid system system_user tables tablesample tablespace target template text
  time timestamp trailing transform treat trim true truncate trusted type types uescape uncommitted unconditional
  unencrypted unknown unlisten unlogged until user vacuum valid validate validator value varchar variadic varying verbose
  version views volatile whitespace within work wrapper write xml xmlattributes xmlconcat xmlelement xmlexists xmlforest
  xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable year yes zone`.split(/\s+/);

/** Every word that a statement of ours may hold: names, aliases, functions and types, and all keywords. */
export function sqlWords(): string[] {
  const letters = Array.from({ length: 26 }, (_, at) => String.fromCharCode(97 + at));
  const words = [
    ...letters,
    ...SQLITE_WORDS,
    ...POSTGRES_WORDS,
    ...statementTexts().flatMap((text) => text.match(WORD) ?? []),
  ];
  return [...new Set(words.map((word) => word.toLowerCase()))].filter((word) => word !== 'id').toSorted();
}

/** The names that our statements give to tables and rows, and those that the databases have for them. */
export function sqlAliases(): string[] {
  const named = statementTexts().flatMap((text) =>
    [...text.matchAll(/\bAS "?([a-z_][a-z0-9_]*)/g)].map(([, name = '']) => name),
  );
  return [...new Set([...named, 'excluded', 'old', 'new', 'r', 't', 'asked'])]
    .filter((name) => !name.startsWith('_'))
    .toSorted();
}

function statementTexts(): string[] {
  const files = globSync('{postgres,sqlite,copy}/**/*.ts', { cwd: WAREHOUSE });
  const texts = files.flatMap((file) => readFileSync(path.join(WAREHOUSE, file), 'utf8').match(QUOTED) ?? []);
  return texts.filter((text) => SQL.test(text)).map((text) => text.replaceAll(/\$\{[^}]*\}/g, ' '));
}
