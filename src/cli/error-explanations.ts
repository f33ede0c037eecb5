/** The cause and the fix of every error code, for `content-sync explain` and the docs. */

/** Error codes that have one cause and one fix. */
interface ErrorExplanation {
  /** Separated by spaces. */
  codes: string;
  cause: string;
  fix: string;
}

/** Every error code that a user may see, by subject. `config/errors.md` is generated from this table. */
export const ERROR_EXPLANATIONS: Readonly<Record<string, readonly ErrorExplanation[]>> = {
  'Command line and settings': [
    {
      codes: 'usage',
      cause: 'An argument, option or command cannot be used here.',
      fix: 'Follow the hint, or run `content-sync <command> --help`.',
    },
    {
      codes: 'settings_not_found',
      cause: 'There is no config file.',
      fix: 'Run `content-sync init`, or name your file with `--config`.',
    },
    {
      codes: 'settings_invalid',
      cause:
        'The config file, `.env` or a profile has errors, which the message lists, or a key or webhook secret cannot be used.',
      fix: 'Correct what the message names, or let the user that runs content-sync read `.env`. `warehouse` is `sqlite:<path>` or `postgres://...`.',
    },
    {
      codes: 'profile_changed',
      cause: 'A profile field changed that gives stored rows another meaning.',
      fix: 'Undo the change, or run `content-sync warehouse rebuild <resource>`, or `content-sync backfill <resource> --restart`.',
    },
    {
      codes: 'privacy_key',
      cause: 'Records were erased, and `privacy_key` is missing or differs from the one used then.',
      fix: 'Restore the key under which the records were erased.',
    },
    {
      codes: 'bad_query_value',
      cause: 'A parameter or address cannot be sent.',
      fix: 'Remove control characters and line breaks.',
    },
    {
      codes: 'bad_template_value',
      cause: 'A value of the service does not fit into a template, or a variable in a path has no value.',
      fix: 'Check the record that the value comes from. Put `{since}` and `{until}` into the query, and give `{cursor}` a `first_cursor`.',
    },
    {
      codes: 'probe_failed',
      cause: '`probe` found no listing, or one that a profile cannot describe.',
      fix: 'Name a listing with `--path`. Check that the address is the root of the API.',
    },
  ],
  Credentials: [
    {
      codes: 'auth_failed',
      cause:
        'The service or its token endpoint refused the credential, or the `identity` request does not confirm the account.',
      fix: 'Check `auth`: the credential is wrong, expired or revoked. A service with its own header needs `headers` in the profile.',
    },
    {
      codes: 'forbidden',
      cause: 'The credential may not read this resource.',
      fix: 'Grant it read access at the service.',
    },
    {
      codes: 'refresh_token_refused',
      cause: 'The refresh token is used up, revoked or expired.',
      fix: 'Get a new one from the service and set `refresh_token` under `auth`.',
    },
    {
      codes: 'bad_token',
      cause: 'The token endpoint does not respond with a token, or is not `https:` although `base_url` is.',
      fix: 'Check `auth.token_url` in the settings and `auth.token_path` in the profile.',
    },
  ],
  'Connection to the service': [
    {
      codes: 'unreachable',
      cause: 'There is no connection to the service or its token endpoint, or no complete HTTP response.',
      fix: 'Check `base_url`, `auth.token_url`, the network and the service.',
    },
    {
      codes: 'timeout',
      cause: 'There was no complete response in time.',
      fix: 'Raise `http.timeout`, or request smaller pages.',
    },
    {
      codes: 'tls',
      cause: 'The certificate or the handshake was refused.',
      fix: 'Check certificate and port, and name a private authority in `NODE_EXTRA_CA_CERTS`.',
    },
    {
      codes: 'proxy_failed',
      cause: 'The proxy does not connect to the service.',
      fix: 'Check `http.proxy` of the source, or `HTTPS_PROXY`, and what the proxy permits.',
    },
    {
      codes: 'origin_refused too_many_redirects',
      cause: 'A redirect or a next link leaves the service or `https:`, cannot be followed, or redirects never end.',
      fix: 'Set `base_url` to the final address.',
    },
    {
      codes: 'not_found listing_missing',
      cause: 'There is nothing at this address.',
      fix: 'Check `base_url`, `version_prefix`, and `path` and `records` of the resource.',
    },
    {
      codes: 'not_the_api',
      cause: 'A web page, login or proxy responded instead of the service.',
      fix: 'Check `base_url` and the network in between.',
    },
    {
      codes: 'bad_request unexpected_status',
      cause: 'The service rejects the request, or responds with a status that has no meaning here.',
      fix: 'Check parameters and headers in the profile. Give a status its meaning with `outcomes`.',
    },
    {
      codes: 'service_error',
      cause: 'The service failed or is not ready.',
      fix: "Try again later. See the service's status page.",
    },
    {
      codes: 'limited',
      cause: 'The service limits the rate, and every attempt exceeded the limit.',
      fix: 'Lower `rate.share` or `rate.requests_per_second`.',
    },
    {
      codes: 'deferred',
      cause: 'The service requests a longer wait than `max_wait`. The work resumes at the stated time (exit code 4).',
      fix: 'Wait. If the service is mistaken, run `content-sync control retry --now`.',
    },
  ],
  Responses: [
    {
      codes: 'bad_encoding bad_json empty_body',
      cause: 'The response is damaged, or not JSON in valid text.',
      fix: 'If every attempt fails alike, report it to the service, or check the proxy in between.',
    },
    {
      codes: 'unsupported_encoding',
      cause: 'The response has a charset or compression that is not supported, or more than 16 KiB of headers.',
      fix: 'Have the service send UTF-8, and gzip, deflate, br or zstd. Look for cookies that a proxy adds.',
    },
    {
      codes: 'body_too_large memory_full',
      cause:
        'The response exceeds `http.max_body`, `http.max_values` or `http.max_digits`, or needs more memory than is available.',
      fix: 'Request smaller pages (`page.size`), raise the limit, or give the process more memory.',
    },
    {
      codes: 'error_in_body partial_answer outcome_rule',
      cause:
        'The body is an error despite a status of success, or says that it is incomplete, or `outcomes` makes the response an error.',
      fix: 'If this response means something else, describe it in `outcomes`.',
    },
    {
      codes: 'bad_page guard_loop',
      cause:
        'A page has no list of records, or fewer records than it states, or the listing repeats itself, has no end or is not sorted.',
      fix: 'Check `records`, `page` and the sort order in `query` of the resource. If they are right, report it to the service.',
    },
    {
      codes: 'pagination_invalid',
      cause:
        'The next page is missing or unreadable, page numbers are not as the profile says, or the service takes a page or filter parameter for a search by value.',
      fix: 'Check `page` and `incremental` of the resource. `content-sync check` shows what the service sends.',
    },
    {
      codes: 'cursor_expired',
      cause: 'The service no longer knows the cursor of an interrupted scan.',
      fix: 'Nothing to do: the scan starts again.',
    },
    {
      codes: 'window_outside',
      cause: 'A response for a range of a report has other days, or its rows have no readable day.',
      fix: 'Compare `windows` in the profile (`field`, `zone`, `to_inclusive`, parameters) with a response.',
    },
    {
      codes: 'feed_refused',
      cause:
        'A feed has no record id or next cursor, its cursor does not move, or it refuses the cursor it has just given.',
      fix: 'Compare `incremental` in the profile (`id`, `next`, `last`, `more`, `start`) with a response of the feed.',
    },
    {
      codes: 'item_missing item_unproved',
      cause: 'A record fetched individually does not exist, or is not the listed one.',
      fix: 'Check `item`, `item_record`, `item_query` and `id`.',
    },
    {
      codes: 'parent_not_synced',
      cause: 'The rows of the parent, each of which has a listing, are not complete.',
      fix: 'Sync the parent first, or both in one run.',
    },
    {
      codes: 'contract_frozen',
      cause: 'A record does not fit the columns, and `contract` is `freeze`.',
      fix: 'Change the contract, or have the service restore the field.',
    },
  ],
  Warehouse: [
    {
      codes: 'warehouse_missing',
      cause: 'There is nothing to read yet, or no record bodies are stored (`history: none`).',
      fix: 'Run `content-sync backfill`, which creates the warehouse; the first `serve` creates the inbox. Else check `warehouse`.',
    },
    {
      codes: 'warehouse_unreachable',
      cause: 'The file or the server cannot be opened, or it lost commits (a failover, an older backup).',
      fix: "Check path, rights, host and port. See the server's log, and run the command again: it resumes.",
    },
    {
      codes: 'warehouse_unusable',
      cause: 'The server, its certificate, its encoding or its connection pooler does not fit.',
      fix: 'Follow the hint: Postgres 13 or later, UTF-8, `pool_mode = transaction`, `sslrootcert` or another `sslmode`.',
    },
    {
      codes: 'warehouse_refused',
      cause: 'Rights are missing, or a row is larger than an index permits.',
      fix: 'Run the statement of the hint as an administrator, make file and folder writable, or drop the index.',
    },
    {
      codes: 'warehouse_busy',
      cause: 'Other programs hold locks or all connections, or wrote to the file while it was read.',
      fix: 'See `pg_stat_activity`, close the program that holds the lock, and run the command again.',
    },
    {
      codes: 'warehouse_full',
      cause: 'The disk is full or fails.',
      fix: 'Make room or check the volume, and run the command again: it resumes.',
    },
    {
      codes: 'warehouse_corrupt',
      cause: 'The file or the stored state is damaged, or the file is not a SQLite database.',
      fix: 'Restore a backup, move the file away and run `content-sync backfill`, or run `content-sync backfill <resource> --restart`.',
    },
    {
      codes: 'warehouse_gone',
      cause: 'A file of the warehouse was moved.',
      fix: 'Put it back, or restart `serve` to start with a new one.',
    },
    {
      codes: 'warehouse_opening',
      cause: '`serve` is just opening the warehouse.',
      fix: 'Run the command again. If it stays, see the page or the log for why.',
    },
    {
      codes: 'warehouse_newer warehouse_older',
      cause: 'Another version wrote the warehouse.',
      fix: 'Run the newer version. A command that writes, such as `sync`, upgrades an older warehouse.',
    },
    {
      codes: 'schema_unsafe',
      cause: 'An object that another role created in the schema would run with the rights of content-sync.',
      fix: 'Remove it and revoke the right, as the hint says.',
    },
    {
      codes: 'table_exists',
      cause: 'The warehouse has a table or view of that name that content-sync did not create.',
      fix: 'Rename it, or use a database or schema of its own.',
    },
    {
      codes: 'table_in_use',
      cause: 'A table or view must be changed, and external views or grants depend on it.',
      fix: 'Drop what the message names, run the command again, and create it again on `<table>_live`.',
    },
  ],
  Files: [
    {
      codes: 'file_too_large file_type file_differs',
      cause: 'A file is larger than allowed, of another type, or not what its record says in `bytes` or `sha256`.',
      fix: 'Raise `max_bytes` or `max_pixels`, add its type to `types` under `files` of the resource, or correct it at the service.',
    },
    {
      codes: 'file_gone',
      cause:
        'A signed URL expired, the service has no such file, or it responds "not modified" to a request that did not ask for it.',
      fix: 'Nothing to do: it is requested again, a missing file when its record changes. Set `item` of the resource, so that an expired URL is renewed at once.',
    },
    {
      codes: 'file_address',
      cause: 'The URL of a file is private, insecure, or contains the credential.',
      fix: 'If it is right, name its host in `files.allow_hosts`.',
    },
    {
      codes: 'file_missing',
      cause: 'The object of a file is missing in its store.',
      fix: 'Run `content-sync files status`, then `content-sync files verify --repair`.',
    },
    {
      codes: 'file_store_taken',
      cause: 'The store belongs to another copy.',
      fix: 'Give each copy its own `files.store`. If the other copy no longer exists, remove `.owner` from the store.',
    },
    {
      codes: 'file_store_full file_store_failed',
      cause:
        'The store does not exist, has no room, or cannot be used: rights, credentials, bucket, volume or network.',
      fix: 'Follow the hint: check `files.store` and its volume. Files are tried again; `content-sync files prune` removes unused ones.',
    },
  ],
  'Export and backup': [
    {
      codes: 'export_unwritable',
      cause: 'The target contains something else, or rights, credentials or the bucket are missing.',
      fix: 'Name an empty or new target, or follow the hint.',
    },
    {
      codes: 'export_failed',
      cause: 'An export was interrupted, or another one writes to the same target.',
      fix: 'Run it again. What the manifest lists is complete.',
    },
  ],
  'Running processes': [
    {
      codes: 'paused',
      cause: 'A user paused the resource.',
      fix: 'Run `content-sync control resume`.',
    },
    {
      codes: 'serve_missing',
      cause: 'No `serve` or worker responds: it ended, is of another version, or belongs to another user.',
      fix: 'Start or restart `serve` with the same version, user and `control` setting, and run the command again.',
    },
    {
      codes: 'lease_held lease_lost',
      cause: 'Another process owns the resource, or has taken it over.',
      fix: 'Wait until it is done, or stop it. After a kill this takes up to 40 seconds.',
    },
    {
      codes: 'address_in_use',
      cause: '`serve` cannot listen on that address.',
      fix: 'Choose another `serve.host` or `serve.port`.',
    },
    {
      codes: 'unknown_source',
      cause: 'A command or work item names a source that this process does not sync.',
      fix: 'Give all processes the same config, and restart them after a change.',
    },
    {
      codes: 'interrupted',
      cause: 'The process was stopped.',
      fix: 'Run the same command again: it resumes.',
    },
    {
      codes: 'bug',
      cause: 'content-sync has a bug.',
      fix: 'Report it with the message and the log. The work is repeated later.',
    },
  ],
};
