package orders;

import java.time.Duration;
import org.springframework.boot.context.properties.ConfigurationProperties;

/** Names of streams and group, and when an entry counts as abandoned or as hopeless. */
@ConfigurationProperties("orders")
public record OrdersProperties(String stream, String group, String consumer, String deadLetters, String processed,
        String notices, int maxDeliveries, Duration minIdle, int crashWith) {
}
