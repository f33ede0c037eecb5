import java.sql.*;
import java.util.*;

/** Prints a line per column: table, column, the type that JDBC tells, and the classes of its values, between tabs. */
public class ReadJdbc {
  public static void main(String[] args) throws Exception {
    try (Connection connection = DriverManager.getConnection(args[0])) {
      for (int at = 2; at < args.length; at++) {
        String from = args[1].isEmpty() ? "\"" + args[at] + "\"" : "\"" + args[1] + "\".\"" + args[at] + "\"";
        try (Statement statement = connection.createStatement();
            ResultSet rows = statement.executeQuery("SELECT * FROM " + from)) {
          ResultSetMetaData about = rows.getMetaData();
          int count = about.getColumnCount();
          List<Set<String>> classes = new ArrayList<>();
          String[] types = new String[count];
          for (int column = 1; column <= count; column++) {
            classes.add(new TreeSet<>());
            types[column - 1] = JDBCType.valueOf(about.getColumnType(column)).getName();
          }
          while (rows.next()) {
            for (int column = 1; column <= count; column++) {
              Object value = types[column - 1].startsWith("TIMESTAMP") ? rows.getTimestamp(column)
                  : rows.getObject(column);
              if (value != null) classes.get(column - 1).add(value.getClass().getSimpleName());
            }
          }
          for (int column = 1; column <= count; column++) {
            System.out.println(args[at] + "\t" + about.getColumnName(column) + "\t" + types[column - 1] + " "
                + (classes.get(column - 1).isEmpty() ? "empty" : String.join("/", classes.get(column - 1))));
          }
        }
      }
    }
  }
}
