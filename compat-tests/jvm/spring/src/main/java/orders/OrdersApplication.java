package orders;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.context.properties.ConfigurationPropertiesScan;
import org.springframework.scheduling.annotation.EnableScheduling;

/**
 * Orders arrive on a stream and are billed by a consumer group; notices arrive on another and are only logged.
 *
 * <pre>
 *   orders  ──► OrderListener (manual ack) ──► processed
 *      │              ▲ dies with work in hand
 *      └─ XPENDING ──► Reclaim (scheduled) ──► processed, or dead letters
 *   notices ──► NoticeListener (auto ack)  ──► processed
 * </pre>
 */
@SpringBootApplication
@EnableScheduling
@ConfigurationPropertiesScan
public class OrdersApplication {
    public static void main(String[] args) {
        SpringApplication.run(OrdersApplication.class, args);
    }
}
